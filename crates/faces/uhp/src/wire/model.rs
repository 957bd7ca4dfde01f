//! Models (UHP §6). `GET /v1/models` answers two protocols at once: `backends` is UHP's, `object` and `data` are the list that
//! OpenAI-style clients expect at the same path.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stead_domain::AgentId;
use stead_domain::agent::Harness;

use super::ids;

/// A model that a backend offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Model {
    /// Its canonical id.
    pub id: &'static str,
    label: &'static str,
    backend: &'static str,
    /// Whether a task that asks for it is served now.
    pub available: bool,
    default: bool,
}

/// What one backend offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Backend {
    default: &'static str,
    models: Vec<Model>,
}

/// One entry of the list that OpenAI-style clients read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelEntry {
    id: &'static str,
    object: &'static str,
    owned_by: &'static str,
}

/// The answer of `GET /v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelCatalog {
    backends: BTreeMap<&'static str, Backend>,
    object: &'static str,
    data: Vec<ModelEntry>,
}

/// The answer of `GET /v1/harnesses/{id}/models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HarnessModels {
    harness_id: String,
    backend: &'static str,
    default: &'static str,
    models: Vec<Model>,
    object: &'static str,
    data: Vec<ModelEntry>,
}

fn models(harness: Harness) -> Vec<Model> {
    match harness {
        // No model is involved, so nothing can be missing: the entry stands for the shell itself.
        Harness::Shell => vec![Model {
            id: harness.model(),
            label: harness.label(),
            backend: harness.as_str(),
            available: true,
            default: true,
        }],
    }
}

fn entry(id: &'static str) -> ModelEntry {
    ModelEntry { id, object: "model", owned_by: "stead" }
}

impl ModelEntry {
    /// The entry of that id.
    pub fn find(id: &str) -> Option<Self> {
        Harness::ALL.into_iter().flat_map(models).find(|model| model.id == id).map(|model| entry(model.id))
    }
}

impl ModelCatalog {
    /// Every backend.
    pub fn current() -> Self {
        let backends = Harness::ALL
            .map(|harness| (harness.as_str(), Backend { default: harness.model(), models: models(harness) }));
        let data = Harness::ALL.into_iter().flat_map(models).map(|model| entry(model.id)).collect();
        Self { backends: backends.into_iter().collect(), object: "list", data }
    }
}

impl HarnessModels {
    /// The models of one configured harness.
    pub fn of(id: AgentId, harness: Harness) -> Self {
        let models = models(harness);
        Self {
            harness_id: ids::harness(id),
            backend: harness.as_str(),
            default: harness.model(),
            object: "list",
            data: models.iter().map(|model| entry(model.id)).collect(),
            models,
        }
    }
}
