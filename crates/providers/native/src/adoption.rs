//! Taking over what an earlier server process launched and left running.
//!
//! In order, for each sandbox: its record in the run directory names an environment that is owned; its process 1 is the one that was
//! launched (run of the machine, number, start time, control group); its runtime answers to the token; its egress socket is bound
//! anew and served under the policy it was launched with. What fails any of these is left to the sweep, which ends it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::EnvironmentId;
use stead_domain::ports::ProviderError;
use stead_link::{Client, Token};
use stead_sandbox::Launched;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::accounting::{self, Quota};
use crate::fault::{cgroup_failed, chain, failed};
use crate::host::{Host, blocking};
use crate::record::{LaunchRecord, read_json};
use crate::run_directory::RUNTIME_SOCKET;
use crate::sandbox::{Sandbox, open_egress};
use crate::sessions::{Sessions, name_of};

/// How long a runtime that was running already may take to answer.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// How many are taken over side by side.
const AT_ONCE: usize = 16;
/// How many measure their files side by side afterwards.
const MEASURED_AT_ONCE: usize = 2;

/// Takes over every sandbox of an owned environment that can be; answers whose they are. What fails was logged.
pub(crate) async fn adopt_sessions(
    sessions: &Arc<Sessions>,
    owned: &BTreeSet<EnvironmentId>,
) -> Result<Vec<EnvironmentId>, ProviderError> {
    let (this, owned) = (Arc::clone(sessions), owned.clone());
    let candidates = blocking(move || candidates(&this, &owned)).await?;
    let (turns, measuring) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(Semaphore::new(MEASURED_AT_ONCE)));
    let mut taking = JoinSet::new();
    for (environment, launch) in candidates {
        let (sessions, turns, measuring) = (Arc::clone(sessions), Arc::clone(&turns), Arc::clone(&measuring));
        taking.spawn(async move {
            // It is never closed, so a turn comes.
            let _turn = turns.acquire().await.ok()?;
            sessions.adopt(environment, launch, measuring).await.then_some(environment)
        });
    }
    let mut adopted: Vec<EnvironmentId> = taking.join_all().await.into_iter().flatten().collect();
    adopted.sort_unstable();
    Ok(adopted)
}

/// What was launched for owned environments, as far as it is written down. Blocking.
fn candidates(
    sessions: &Sessions,
    owned: &BTreeSet<EnvironmentId>,
) -> Result<Vec<(EnvironmentId, LaunchRecord)>, ProviderError> {
    let run = &sessions.host.run;
    let mut found = Vec::new();
    for name in run.names().map_err(failed("list the run directory", &sessions.host.config.run))? {
        let launch = read_json::<LaunchRecord>(&run.of(&name).join(LaunchRecord::FILE)).ok().flatten();
        let Some(launch) = launch.filter(|launch| launch.cgroup == name && launch.is_alive()) else { continue };
        let Some(environment) = launch.environment.filter(|environment| owned.contains(environment)) else { continue };
        let record = sessions.record(environment)?;
        let is_its_own =
            record.is_some_and(|record| name_of(record.slot) == name && sessions.ensure_lease(&record).is_ok());
        if is_its_own && sessions.live(environment).is_none() {
            found.push((environment, launch));
        }
    }
    Ok(found)
}

impl Sandbox {
    /// Takes over what was launched; `None` when it cannot be, or does not answer.
    pub(crate) async fn take_over(host: &Arc<Host>, launch: LaunchRecord) -> Result<Option<Arc<Self>>, ProviderError> {
        let (owner, found) = (Arc::clone(host), launch.clone());
        let Some(launched) = blocking(move || process_of(&owner, &found)).await? else { return Ok(None) };
        let name = launch.cgroup.clone();
        let (socket, token) = (host.run.socket(&name, RUNTIME_SOCKET), Token::new(launch.token.clone()));
        let client = match tokio::time::timeout(HELLO_DEADLINE, Client::connect(socket, &token)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                tracing::error!(name, error = chain(&error), "a runtime of an earlier process cannot be spoken to");
                return Ok(None);
            }
            Err(_) => {
                tracing::error!(name, "a runtime of an earlier process does not answer");
                return Ok(None);
            }
        };
        let egress = match launch.egress.clone() {
            Some(policy) => Some(open_egress(host, &name, policy).await?),
            None => None,
        };
        let sandbox = Self::assemble(host, name, launch, launched, egress, None);
        sandbox.use_client(client).await;
        Ok(Some(sandbox))
    }

    /// Bounds what it has on disk from here on, counting what is there as found. For one that was taken over.
    pub(crate) async fn bound_from_now(self: Arc<Self>, quota: impl FnOnce() -> Quota + Send + 'static) {
        let this = Arc::clone(&self);
        let measure = move || {
            let quota = quota();
            this.ledger.bound_disk(quota.clone());
            Ok(quota)
        };
        // A walk that was cut off leaves the sandbox unmeasured, which is logged.
        if let Ok(quota) = blocking(measure).await {
            accounting::watch(self, quota).await;
        }
    }
}

/// The process 1 that a record names, when it is that one: its number and its start, and where groups are made, its group. Blocking.
fn process_of(host: &Host, launch: &LaunchRecord) -> Result<Option<Launched>, ProviderError> {
    let taken = Launched::take_over(launch.pid, launch.start_time_ticks);
    let Some(launched) = taken.map_err(failed("watch a process", &host.run.of(&launch.cgroup)))? else {
        return Ok(None);
    };
    let counted = host.cgroups.makes_groups();
    if counted && !host.cgroups.pids(&launch.cgroup).map_err(cgroup_failed)?.contains(&launch.pid) {
        tracing::warn!(name = launch.cgroup, pid = launch.pid, "a sandbox is not in its control group");
        return Ok(None);
    }
    Ok(Some(launched))
}

impl Sessions {
    /// Makes a sandbox that runs already the environment's own; answers whether it is.
    async fn adopt(
        self: Arc<Self>,
        environment: EnvironmentId,
        launch: LaunchRecord,
        measuring: Arc<Semaphore>,
    ) -> bool {
        let held = self.hold(environment).await;
        let Some(limits) = launch.limits else { return false };
        let sandbox = match Sandbox::take_over(&self.host, launch).await {
            Ok(Some(sandbox)) => sandbox,
            Ok(None) => return false,
            Err(error) => {
                tracing::error!(%environment, %error, "a sandbox of an earlier process could not be taken over");
                return false;
            }
        };
        held.set(Some(Arc::clone(&sandbox)));
        let this = Arc::clone(&self);
        let noting = Arc::clone(&sandbox);
        // What its counters say up to here was somebody else's to tell.
        noting.limits_noted().await;
        tokio::spawn(async move {
            // It is never closed, so a turn comes.
            let turn = measuring.acquire_owned().await;
            let quota = move || {
                let _turn = turn;
                this.quota(environment, &limits)
            };
            sandbox.bound_from_now(quota).await;
        });
        true
    }
}
