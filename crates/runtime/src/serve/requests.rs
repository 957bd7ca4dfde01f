//! What the server's messages do.

use sha2::{Digest, Sha256};
use stead_link::{ErrorCode, ExecRequest, ExitReason, Frame, Kind, NAME_BYTES, Reply, Request, frame, generation};

use super::Runtime;
use crate::connection::{Connection, Target};
use crate::exec::{Exec, Owner};
use crate::files::{FileError, Job, ListJob, ReadJob, WriteJob};

/// The generation that knows names of commands.
const NAMES: u32 = 2;
/// Commands that are known at one time, those that only linger in the background and those whose end was not acknowledged included.
/// With the other limits it keeps this process below the usual 1024 descriptors.
const MAX_EXECS: usize = 96;
/// Listings that are under way at one time; each holds a descriptor per level it is deep.
const MAX_LISTINGS: usize = 4;

impl Runtime {
    /// Reads from a connection and acts on every whole frame.
    pub(super) fn receive(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !connection.receive(&mut self.scratch) {
            self.drop_connection(id);
            return;
        }
        let input = connection.take_input();
        let mut used = 0;
        loop {
            match frame::decode(&input[used..]) {
                Ok(Some((frame, length))) => {
                    used += length;
                    self.act(Owner { connection: id, stream: frame.stream }, frame);
                }
                Ok(None) => break,
                Err(error) => {
                    self.fatal(id, ErrorCode::Malformed, &error.to_string());
                    used = input.len();
                }
            }
            if self.connections.get(&id).is_none_or(Connection::is_closing) {
                used = input.len();
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.restore_input(input, used);
        }
    }

    fn act(&mut self, from: Owner, frame: Frame<'_>) {
        let authenticated = self.connections.get(&from.connection).is_some_and(Connection::is_authenticated);
        match (frame.kind, authenticated) {
            (Kind::Message, false) => self.hello(from, frame.payload),
            (_, false) => self.fatal(from.connection, ErrorCode::Unauthorized, "a hello must come first"),
            (Kind::Message, true) => match parse(frame.payload) {
                Ok(request) => self.request(from, request),
                Err((code, message)) => self.answer_error(from, code, &message),
            },
            (Kind::Data, true) => self.data(from, frame.payload),
            (Kind::DataError | Kind::Unknown(_), true) => {
                self.answer_error(from, ErrorCode::UnknownMessage, "this kind of frame is not known");
            }
        }
    }

    fn hello(&mut self, from: Owner, payload: &[u8]) {
        let Ok(Request::Hello { generation: theirs, token }) = parse(payload) else {
            self.fatal(from.connection, ErrorCode::Unauthorized, "a hello must come first");
            return;
        };
        // What the time of the comparison tells is about a hash, and leads to no token.
        let right = Sha256::digest(token.expose().as_bytes())[..] == self.token_digest[..];
        let Some(generation) = generation::negotiate(theirs).filter(|_| right) else {
            self.fatal(from.connection, ErrorCode::Unauthorized, "the token is not this environment's");
            return;
        };
        if let Some(connection) = self.connections.get_mut(&from.connection) {
            connection.authenticate(generation);
            let welcome = Reply::Welcome {
                generation,
                runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
            };
            connection.send(0, &welcome);
            self.note_servers();
        }
    }

    fn request(&mut self, from: Owner, request: Request) {
        let generation = self.connections.get(&from.connection).map_or(0, Connection::generation);
        if request.introduced() > generation {
            self.answer_error(from, ErrorCode::UnknownMessage, "this type of message is of a later generation");
            return;
        }
        match request {
            Request::Hello { .. } => self.answer_error(from, ErrorCode::BadStream, "the connection has said hello"),
            Request::Exec(request) => {
                let name = request.name.filter(|_| generation >= NAMES);
                self.exec(from, ExecRequest { name, ..request });
            }
            Request::Adopt { name, from: byte } => self.adopt(from, &name, byte),
            Request::Acknowledge { bytes, end } => self.acknowledge(from, bytes, end),
            Request::Detach {} => self.detach(from),
            Request::Signal { signal } => {
                if let Some(exec) = self.exec_of(from) {
                    exec.signal(signal);
                }
            }
            Request::Kill {} => {
                if let Some(exec) = self.exec_of(from) {
                    exec.kill(ExitReason::Killed);
                    self.settle_of(from);
                }
            }
            Request::DataEnd {} => self.data_end(from),
            Request::Credit { bytes } => {
                if let Some(connection) = self.connections.get_mut(&from.connection) {
                    connection.add_credit(from.stream, bytes);
                }
            }
            Request::Cancel {} => self.cancel(from),
            Request::List { .. } if self.listings() >= MAX_LISTINGS => {
                self.answer_error(from, ErrorCode::Limit, "too many listings");
            }
            Request::List { root, max_entries } => {
                let job = ListJob::new(&root, max_entries).map(|job| (Job::List(job), None));
                self.begin_job(from, job);
            }
            Request::Read { root, path, offset, length } => {
                let job = ReadJob::new(&root, &path, offset, length);
                self.begin_job(from, job.map(|(job, opened)| (Job::Read(job), Some(opened))));
            }
            Request::Write { root, path, executable } => {
                let job = WriteJob::new(&root, &path, executable).map(|job| (Job::Write(job), None));
                self.begin_job(from, job);
            }
            Request::KillAll {} => {
                let survivors = self.kill_all();
                self.answer(from, &Reply::KilledAll { survivors });
            }
            Request::Ping {} => self.answer(from, &Reply::Pong {}),
            Request::Shutdown {} => {
                self.ending = true;
                self.answer(from, &Reply::Bye {});
            }
        }
    }

    fn listings(&self) -> usize {
        self.jobs.values().filter(|job| matches!(job, Job::List(_))).count()
    }

    fn exec(&mut self, from: Owner, request: ExecRequest) {
        if self.execs.len() >= MAX_EXECS {
            self.answer_error(from, ErrorCode::Limit, "too many commands");
            return;
        }
        if request.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > NAME_BYTES) {
            self.answer_error(from, ErrorCode::BadName, "a name has 1 to 64 bytes");
            return;
        }
        if request.name.as_ref().is_some_and(|name| self.named(name).is_some()) {
            self.answer_error(from, ErrorCode::BadName, "a command of this name is still known");
            return;
        }
        let id = self.fresh_id();
        if !self.open(from, Target::Exec(id)) {
            return;
        }
        match Exec::new(from, request) {
            Ok(exec) => drop(self.execs.insert(id, exec)),
            Err(error) => self.answer_error(from, ErrorCode::SpawnFailed, &error.to_string()),
        }
    }

    fn named(&self, name: &str) -> Option<u32> {
        self.execs.iter().find(|(_, exec)| exec.name() == Some(name)).map(|(id, _)| *id)
    }

    /// Gives a named command to this stream, and takes it from the one that has it.
    fn adopt(&mut self, to: Owner, name: &str, byte: u64) {
        let Some(id) = self.named(name) else {
            self.answer_error(to, ErrorCode::UnknownCommand, "no command of this name is known");
            return;
        };
        if let Some(Err(error)) = self.execs.get(&id).map(|exec| exec.check(byte)) {
            self.answer_error(to, ErrorCode::OutOfRange, &error.to_string());
            return;
        }
        if !self.open(to, Target::Exec(id)) {
            return;
        }
        let former = self.execs.get_mut(&id).and_then(|exec| exec.owner.take());
        if let Some((former, connection)) =
            former.and_then(|former| Some((former, self.connections.get_mut(&former.connection)?)))
        {
            connection.refuse(former.stream, ErrorCode::TakenOver, "another stream has taken the command over");
        }
        if let (Some(exec), Some(connection)) = (self.execs.get_mut(&id), self.connections.get_mut(&to.connection)) {
            // The byte was looked at above, and nothing has been acknowledged since.
            let _ = exec.adopt(to, byte, connection);
        }
    }

    fn acknowledge(&mut self, from: Owner, bytes: u64, end: bool) {
        let Some(Target::Exec(id)) = self.target(from) else {
            return;
        };
        let outcome = self.with_exec(id, |exec, owner, _| owner.map(|owner| exec.acknowledge(bytes, end, owner)));
        if let Some(Some(Err(error))) = outcome {
            if let Some(connection) = self.connections.get_mut(&from.connection) {
                connection.refuse(from.stream, ErrorCode::OutOfRange, error.to_string());
            }
            // Whoever is wrong about that shall not cost a command its life.
            self.with_exec(id, |exec, _, _| exec.disown());
        }
        self.settle(id);
    }

    /// Lets go of a stream: as if its connection were lost.
    fn detach(&mut self, from: Owner) {
        let Some(target) = self.target(from) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&from.connection) {
            connection.end(from.stream, &Reply::Cancelled {});
        }
        match target {
            Target::Exec(id) => {
                self.with_exec(id, |exec, _, _| exec.disown());
                self.settle(id);
            }
            Target::Job => self.give_up(from, Some(target)),
        }
    }

    fn target(&self, from: Owner) -> Option<Target> {
        self.connections.get(&from.connection)?.target(from.stream)
    }

    fn begin_job(&mut self, from: Owner, job: Result<(Job, Option<Reply>), FileError>) {
        match job {
            Ok((job, first)) => {
                if self.open(from, Target::Job) {
                    self.jobs.insert((from.connection, from.stream), job);
                    if let Some(reply) = first {
                        self.answer(from, &reply);
                    }
                }
            }
            Err(error) => self.answer_error(from, error.code(), &error.to_string()),
        }
    }

    fn data(&mut self, from: Owner, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&from.connection) else {
            return;
        };
        if !connection.take_credit(from.stream, bytes.len()) {
            self.fatal(from.connection, ErrorCode::CreditExceeded, "more data than there was credit for");
            return;
        }
        let failure = match connection.target(from.stream) {
            Some(Target::Exec(id)) => {
                let Some(exec) = self.execs.get_mut(&id) else {
                    return;
                };
                let outcome = exec.data(bytes, connection);
                outcome.err().map(|error| (ErrorCode::SpawnFailed, error.to_string()))
            }
            Some(Target::Job) => match self.jobs.get_mut(&(from.connection, from.stream)) {
                Some(Job::Write(job)) => {
                    let outcome = job.data(bytes);
                    connection.grant(from.stream, frame::cost(bytes.len()));
                    outcome.err().map(|error| (error.code(), error.to_string()))
                }
                _ => Some((ErrorCode::BadStream, "the stream takes no data".to_owned())),
            },
            // Data that was under way when its stream ended.
            None => None,
        };
        if let Some((code, message)) = failure {
            self.answer_error(from, code, &message);
        }
    }

    fn data_end(&mut self, from: Owner) {
        if let Some(exec) = self.exec_of(from) {
            exec.data_end();
            return;
        }
        let key = (from.connection, from.stream);
        if !matches!(self.jobs.get(&key), Some(Job::Write(_))) {
            return;
        }
        if let (Some(Job::Write(job)), Some(connection)) =
            (self.jobs.remove(&key), self.connections.get_mut(&from.connection))
        {
            match job.finish() {
                Ok(reply) => connection.end(from.stream, &reply),
                Err(error) => connection.refuse(from.stream, error.code(), error.to_string()),
            }
        }
    }

    fn cancel(&mut self, from: Owner) {
        let Some(connection) = self.connections.get_mut(&from.connection) else {
            return;
        };
        // A stream that has just ended had its last message already.
        let Some(target) = connection.target(from.stream) else {
            return;
        };
        connection.end(from.stream, &Reply::Cancelled {});
        self.give_up(from, Some(target));
    }

    /// Ends what a stream stood for when the stream itself is gone.
    fn give_up(&mut self, from: Owner, target: Option<Target>) {
        match target {
            Some(Target::Exec(id)) => {
                self.with_exec(id, |exec, _, _| {
                    exec.kill(ExitReason::Killed);
                    exec.abandon();
                });
                self.settle(id);
            }
            Some(Target::Job) => drop(self.jobs.remove(&(from.connection, from.stream))),
            None => {}
        }
    }

    fn open(&mut self, from: Owner, target: Target) -> bool {
        let Some(connection) = self.connections.get_mut(&from.connection) else {
            return false;
        };
        let opened = connection.open(from.stream, target);
        if !opened {
            // Not `refuse`: a stream of this number that is in use goes on.
            let message = "the stream number is 0 or in use, or there are too many streams".to_owned();
            connection.send(from.stream, &Reply::Error { code: ErrorCode::BadStream, message });
        }
        opened
    }

    fn exec_of(&mut self, from: Owner) -> Option<&mut Exec> {
        match self.connections.get(&from.connection)?.target(from.stream)? {
            Target::Exec(id) => self.execs.get_mut(&id),
            Target::Job => None,
        }
    }

    fn settle_of(&mut self, from: Owner) {
        if let Some(Target::Exec(id)) = self.target(from) {
            self.settle(id);
        }
    }

    fn answer(&mut self, to: Owner, reply: &Reply) {
        if let Some(connection) = self.connections.get_mut(&to.connection) {
            connection.send(to.stream, reply);
        }
    }

    /// Answers with an error, which ends the stream if there is one.
    fn answer_error(&mut self, to: Owner, code: ErrorCode, message: &str) {
        let Some(connection) = self.connections.get_mut(&to.connection) else {
            return;
        };
        let target = connection.target(to.stream);
        connection.refuse(to.stream, code, message);
        self.give_up(to, target);
    }

    /// Answers with an error on the connection itself and ends it.
    fn fatal(&mut self, id: u32, code: ErrorCode, message: &str) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refuse(0, code, message);
            connection.close();
        }
    }
}

fn parse(payload: &[u8]) -> Result<Request, (ErrorCode, String)> {
    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(rename = "type")]
        name: String,
    }
    serde_json::from_slice(payload).map_err(|error| match serde_json::from_slice::<Named>(payload) {
        Ok(named) if !Request::TYPES.contains(&named.name.as_str()) => {
            (ErrorCode::UnknownMessage, "this type of message is not known".to_owned())
        }
        _ => (ErrorCode::Malformed, error.to_string()),
    })
}
