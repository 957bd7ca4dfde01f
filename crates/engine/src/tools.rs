//! What is found out about this machine while the server already answers: its tools are asked, which takes them a second. Who
//! needs an answer waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use stead_domain::{Code, Error, Result};
use stead_projects::Toolchain;
use tokio::sync::SetOnce;

/// The longest that anybody waits for a tool to say something.
const PATIENCE: Duration = Duration::from_mins(1);

/// The registries that builds install from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildRegistries {
    /// Their names. Those at addresses are the provider's to know.
    pub hosts: BTreeSet<String>,
    /// The operator's Python index; absent for the installers' own default.
    pub python_index: Option<String>,
    /// The operator's npm registry; absent for npm's own default.
    pub npm_registry: Option<String>,
}

/// This machine's tools, as far as they have answered.
#[derive(Debug, Default)]
pub struct Tools {
    toolchain: SetOnce<Toolchain>,
    registries: SetOnce<BuildRegistries>,
}

impl Tools {
    /// Tools that are known from the start.
    pub fn known(toolchain: Toolchain, registries: BuildRegistries) -> Self {
        Self { toolchain: SetOnce::new_with(Some(toolchain)), registries: SetOnce::new_with(Some(registries)) }
    }

    /// Tells what builds install with. What was told first counts.
    pub fn tell_toolchain(&self, toolchain: Toolchain) {
        let _ = self.toolchain.set(toolchain);
    }

    /// Tells where builds install from. What was told first counts.
    pub fn tell_registries(&self, registries: BuildRegistries) {
        let _ = self.registries.set(registries);
    }

    /// What builds install with, and the base they record.
    pub async fn toolchain(&self) -> Result<&Toolchain> {
        told(&self.toolchain, PATIENCE).await
    }

    /// Where builds install from.
    pub async fn registries(&self) -> Result<&BuildRegistries> {
        told(&self.registries, PATIENCE).await
    }
}

async fn told<T>(cell: &SetOnce<T>, patience: Duration) -> Result<&T> {
    let message = "this machine's tools do not say what builds are made with";
    tokio::time::timeout(patience, cell.wait()).await.map_err(|_| Error::new(Code::BackendUnavailable, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_needs_an_answer_waits_for_it_but_not_for_ever() {
        let tools = Tools::default();
        let short = Duration::from_millis(20);
        assert_eq!(told(&tools.registries, short).await.unwrap_err().code, Code::BackendUnavailable);
        let first = BuildRegistries { npm_registry: Some("first".to_owned()), ..BuildRegistries::default() };
        let (waited, ()) = tokio::join!(tools.registries(), async {
            tokio::time::sleep(short).await;
            tools.tell_registries(first.clone());
            tools.tell_registries(BuildRegistries::default());
        });
        assert_eq!(waited.unwrap(), &first);
    }
}
