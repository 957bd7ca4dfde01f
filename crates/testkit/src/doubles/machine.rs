//! A machine on which environments are made at once, or as slowly as a test wants, and commands do what a test says. It outlives the server processes that use it.
//!
//! A script `echo TEXT` says so and ends. Every other one runs until the test [ends](Machine::end) it, or somebody kills it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_domain::limit::Reached;
use stead_domain::network::NetworkMode;
use stead_domain::ports::{
    Adopted, BuildSandbox, BuildSandboxSpec, BuildSandboxes, Endpoint, Exec, ExecExit, ExecRequest, ExitReason,
    FileEntry, Observed, Outcome, PortFuture, Program, Provider, ProviderCapabilities, ProviderError, Runtime,
    RuntimeError, StartSpec, Swept,
};
use stead_domain::{EnvironmentId, OperationId, TurnId, WorkspaceId};

use super::script::Script;

/// The machine.
#[derive(Debug, Clone, Default)]
pub struct Machine(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    environments: HashMap<EnvironmentId, Place>,
    /// Environments that may run at once; all of them when absent.
    places: Option<usize>,
    /// How long an environment takes to come up.
    start_takes: Duration,
    /// Whether a start finds running environments and takes them over.
    adopts: bool,
    /// Whether processes survive what should end them, until their environment is stopped.
    unruly: bool,
    /// The scripts that were run, in order, with what they were named.
    runs: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct Place {
    operation: Option<OperationId>,
    running: bool,
    scripts: HashMap<String, Arc<Script>>,
    files: BTreeMap<String, Vec<u8>>,
}

fn refused(code: &str, message: &str) -> ProviderError {
    ProviderError::passing(code, message)
}

fn soon<T: Send + 'static>(value: T) -> PortFuture<'static, T> {
    Box::pin(std::future::ready(value))
}

impl Machine {
    /// A machine whose environments outlive a server process.
    pub fn adopting() -> Self {
        let machine = Self::default();
        machine.lock().adopts = true;
        machine
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn script(&self, turn: TurnId) -> Option<Arc<Script>> {
        let name = turn.to_string();
        self.lock().environments.values().find_map(|place| place.scripts.get(&name).cloned())
    }

    /// Returns when the script of a turn runs.
    pub async fn runs(&self, turn: TurnId) {
        while self.script(turn).is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Lets the script of a turn, which must run, say something.
    pub fn say(&self, turn: TurnId, text: &str) {
        self.script(turn).expect("the script runs").say(text);
    }

    /// Lets the script of a turn, which must run, end with this status.
    pub fn end(&self, turn: TurnId, code: i32) {
        let exit = ExecExit { code: Some(code), signal: None, reason: ExitReason::Exited };
        self.script(turn).expect("the script runs").end(exit);
    }

    /// Lets the script of a turn, which must run, end with this status, and its environment with it.
    pub fn end_with_all(&self, turn: TurnId, code: i32) {
        let (script, name) = (self.script(turn).expect("the script runs"), turn.to_string());
        let mut state = self.lock();
        let places = state.environments.values_mut().filter(|place| place.scripts.contains_key(&name));
        places.for_each(|place| place.running = false);
        script.end(ExecExit { code: Some(code), signal: None, reason: ExitReason::Exited });
    }

    /// How much of its output a turn's script, which must run, was told to forget.
    pub fn acknowledged(&self, turn: TurnId) -> u64 {
        self.script(turn).expect("the script runs").acknowledged()
    }

    /// Cuts every connection, as the end of a server process does.
    pub fn lose_connections(&self) {
        let state = self.lock();
        state.environments.values().flat_map(|place| place.scripts.values()).for_each(|script| script.lose());
    }

    /// Whether processes survive what should end them, until their environment is stopped.
    pub fn set_unruly(&self, unruly: bool) {
        self.lock().unruly = unruly;
    }

    /// How many environments may run at once.
    pub fn set_places(&self, places: usize) {
        self.lock().places = Some(places);
    }

    /// How long every environment takes to come up from now on.
    pub fn set_start_takes(&self, time: Duration) {
        self.lock().start_takes = time;
    }

    /// Puts a file into the working directory of every environment.
    pub fn put_file(&self, path: &str, bytes: &[u8]) {
        for place in self.lock().environments.values_mut() {
            place.files.insert(path.to_owned(), bytes.to_vec());
        }
    }

    /// The scripts that were run, in order.
    pub fn scripts(&self) -> Vec<String> {
        self.lock().runs.iter().map(|(_, script)| script.clone()).collect()
    }

    /// How many environments run.
    pub fn running(&self) -> usize {
        self.lock().environments.values().filter(|place| place.running).count()
    }

    fn bring_up_in_time(
        &self,
        operation: OperationId,
        environment: EnvironmentId,
    ) -> PortFuture<'static, Outcome<String>> {
        let (machine, time) = (self.clone(), self.lock().start_takes);
        Box::pin(async move {
            if !time.is_zero() {
                tokio::time::sleep(time).await;
            }
            machine.bring_up(operation, environment)
        })
    }

    fn bring_up(&self, operation: OperationId, environment: EnvironmentId) -> Outcome<String> {
        let mut state = self.lock();
        let running = state.environments.iter().filter(|(id, place)| place.running && **id != environment).count();
        if state.places.is_some_and(|places| running >= places) {
            return Outcome::Known(Err(refused("machine_full", "there is no place")));
        }
        let place = state.environments.entry(environment).or_default();
        (place.operation, place.running) = (Some(operation), true);
        Outcome::Known(Ok("{}".to_owned()))
    }

    fn take_down(&self, environment: EnvironmentId, remove: bool) {
        let mut state = self.lock();
        if let Some(place) = state.environments.get_mut(&environment) {
            place.running = false;
            place.scripts.drain().for_each(|(_, script)| {
                script.kill();
                script.lose();
            });
        }
        if remove {
            state.environments.remove(&environment);
        }
    }
}

impl Provider for Machine {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities { networks: NetworkMode::ALL.to_vec(), ..ProviderCapabilities::default() }
    }

    fn create<'a>(
        &'a self,
        operation: OperationId,
        environment: EnvironmentId,
        _: WorkspaceId,
        _: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>> {
        self.bring_up_in_time(operation, environment)
    }

    fn start<'a>(
        &'a self,
        operation: OperationId,
        environment: EnvironmentId,
        _: WorkspaceId,
        _: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>> {
        self.bring_up_in_time(operation, environment)
    }

    fn stop(&self, _: OperationId, environment: EnvironmentId) -> PortFuture<'_, Outcome<()>> {
        self.take_down(environment, false);
        soon(Outcome::Known(Ok(())))
    }

    fn delete(&self, _: OperationId, environment: EnvironmentId) -> PortFuture<'_, Outcome<()>> {
        self.take_down(environment, true);
        soon(Outcome::Known(Ok(())))
    }

    fn inspect(&self, environment: EnvironmentId) -> PortFuture<'_, Result<Observed, ProviderError>> {
        let state = self.lock();
        let place = state.environments.get(&environment);
        soon(Ok(Observed {
            exists: place.is_some(),
            running: place.is_some_and(|place| place.running),
            last_operation: place.and_then(|place| place.operation),
            handle: place.map(|_| "{}".to_owned()),
        }))
    }

    fn limits_noted(&self, _: EnvironmentId) -> PortFuture<'_, ()> {
        soon(())
    }

    fn limits_reached(&self, _: EnvironmentId, _: bool) -> PortFuture<'_, Vec<Reached>> {
        soon(Vec::new())
    }

    fn link(&self, environment: EnvironmentId) -> PortFuture<'_, Result<Arc<dyn Runtime>, ProviderError>> {
        let running = self.lock().environments.get(&environment).is_some_and(|place| place.running);
        soon(match running {
            true => Ok(Arc::new(Inside { machine: self.clone(), environment })),
            false => Err(refused("machine_down", "the environment does not run")),
        })
    }

    fn sweep<'a>(&'a self, owned: &'a [EnvironmentId]) -> PortFuture<'a, Result<Swept, ProviderError>> {
        let mut swept = Swept::default();
        let adopts = self.lock().adopts;
        let running: Vec<EnvironmentId> = {
            let state = self.lock();
            state.environments.iter().filter(|(_, place)| place.running).map(|(id, _)| *id).collect()
        };
        for id in running {
            if adopts && owned.contains(&id) {
                swept.adopted.push(id);
            } else {
                self.take_down(id, !owned.contains(&id));
                swept.ended += 1;
            }
        }
        soon(Ok(swept))
    }
}

/// The runtime inside of one environment.
struct Inside {
    machine: Machine,
    environment: EnvironmentId,
}

impl Inside {
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Place, &mut Vec<(String, String)>) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let mut state = self.machine.lock();
        let State { environments, runs, .. } = &mut *state;
        match environments.get_mut(&self.environment).filter(|place| place.running) {
            Some(place) => work(place, runs),
            None => Err(RuntimeError::Lost("the environment does not run".to_owned())),
        }
    }

    fn begin(&self, request: ExecRequest) -> Result<Box<dyn Exec>, RuntimeError> {
        let Program::Script(script) = request.program else {
            return Err(RuntimeError::Refused("this machine runs scripts alone".to_owned()));
        };
        let (name, text) = (request.name.unwrap_or_default(), String::from_utf8_lossy(&script).into_owned());
        let begun = Arc::new(Script::default());
        if let Some(said) = text.strip_prefix("echo ") {
            begun.say(&format!("{said}\n"));
            begun.end(ExecExit { code: Some(0), signal: None, reason: ExitReason::Exited });
        }
        self.with(|place, runs| {
            if place.scripts.contains_key(&name) {
                return Err(RuntimeError::Refused("there is a command of that name".to_owned()));
            }
            place.scripts.insert(name.clone(), begun.clone());
            runs.push((name, text));
            begun.connect(0)
        })
    }
}

impl Runtime for Inside {
    fn exec(&self, request: ExecRequest) -> PortFuture<'_, Result<Box<dyn Exec>, RuntimeError>> {
        soon(self.begin(request))
    }

    fn adopt<'a>(&'a self, name: &'a str, from: u64) -> PortFuture<'a, Result<Adopted, RuntimeError>> {
        soon(self.with(|place, _| match place.scripts.get(name) {
            Some(script) => Ok(Adopted::Found(script.connect(from)?)),
            None => Ok(Adopted::Unknown),
        }))
    }

    fn list_files<'a>(&'a self, _: &'a str, _: usize) -> PortFuture<'a, Result<(Vec<FileEntry>, bool), RuntimeError>> {
        soon(self.with(|place, _| {
            let entry = |(path, bytes): (&String, &Vec<u8>)| FileEntry {
                path: path.clone(),
                exact: true,
                bytes: bytes.len() as u64,
                stamp: format!("{bytes:?}"),
            };
            Ok((place.files.iter().map(entry).collect(), false))
        }))
    }

    fn read_file<'a>(
        &'a self,
        _: &'a str,
        path: &'a str,
        offset: u64,
        length: usize,
    ) -> PortFuture<'a, Result<Vec<u8>, RuntimeError>> {
        soon(self.with(|place, _| {
            let file = place.files.get(path).ok_or_else(|| RuntimeError::Refused("no such file".to_owned()))?;
            let from = (offset as usize).min(file.len());
            Ok(file[from..(from + length).min(file.len())].to_vec())
        }))
    }

    fn write_file<'a>(
        &'a self,
        _: &'a str,
        path: &'a str,
        offset: u64,
        bytes: &'a [u8],
        _: bool,
    ) -> PortFuture<'a, Result<(), RuntimeError>> {
        soon(self.with(|place, _| {
            let file = place.files.entry(path.to_owned()).or_default();
            file.truncate(offset as usize);
            file.extend_from_slice(bytes);
            Ok(())
        }))
    }

    fn kill_all(&self) -> PortFuture<'_, Result<(), RuntimeError>> {
        let ended = self.with(|place, _| {
            place.scripts.drain().for_each(|(_, script)| script.kill());
            Ok(())
        });
        let unruly = self.machine.lock().unruly;
        soon(ended.and_then(|()| match unruly {
            true => Err(RuntimeError::Refused("1 processes do not end".to_owned())),
            false => Ok(()),
        }))
    }
}

/// No build runs here.
impl BuildSandboxes for Machine {
    fn open(&self, _: BuildSandboxSpec) -> PortFuture<'_, Result<Box<dyn BuildSandbox>, ProviderError>> {
        soon(Err(ProviderError::permanent("no_builds", "no build runs here")))
    }

    fn probe<'a>(&'a self, _: &'a Endpoint) -> PortFuture<'a, Result<(), ProviderError>> {
        soon(Err(ProviderError::permanent("no_builds", "no build runs here")))
    }

    fn sweep_builds(&self) -> PortFuture<'_, Result<usize, ProviderError>> {
        soon(Ok(0))
    }
}
