//! One flat JSON object per line: what the event says, and what the spans around it say, so that the request's id or the turn's
//! is a member of every line that concerns it.
//!
//! ```text
//! {"timestamp":"2026-11-30T03:34:15.123456Z","level":"INFO","target":"stead_server::serve::observed",
//!  "message":"request finished","span":"request","request.id":"…","http.route":"/v1/responses","http.status":200,…}
//! ```

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes an event.
pub(super) struct Line;

/// Keeps the fields of spans as an object.
#[derive(Debug)]
pub(super) struct Fields;

struct Members<'a>(&'a mut Map<String, Value>);

impl Members<'_> {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Members<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut members = Map::new();
        fields.record(&mut Members(&mut members));
        write!(writer, "{}", Value::Object(members))
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        let mut members = object(&current.fields);
        fields.record(&mut Members(&mut members));
        current.fields = Value::Object(members).to_string();
        Ok(())
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut members = Map::new();
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        members.insert("timestamp".to_owned(), timestamp.into());
        members.insert("level".to_owned(), event.metadata().level().as_str().into());
        members.insert("target".to_owned(), event.metadata().target().into());
        // The outermost first: what is said closer to the event counts.
        for span in context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                members.extend(object(&fields.fields));
            }
            members.insert("span".to_owned(), span.name().into());
        }
        event.record(&mut Members(&mut members));
        writeln!(writer, "{}", Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_what_its_spans_say() {
        let kept = Kept::default();
        let writer = kept.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let layer = layer.fmt_fields(Fields).event_format(Line).boxed();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let outer = tracing::info_span!("task", request.id = "r\"1", session.id = tracing::field::Empty);
            let _in = outer.enter();
            let inner = tracing::info_span!("turn", turn.id = %"turn_1");
            let _in = inner.enter();
            outer.record("session.id", "hsess_1");
            tracing::info!(count = 3, failed = false, error = ?Some("x"), "said");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut line: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert!(line.remove("timestamp").unwrap().as_str().unwrap().ends_with('Z'));
        let expected = serde_json::json!({
            "level": "INFO", "target": module_path!(), "message": "said", "span": "turn", "request.id": "r\"1",
            "session.id": "hsess_1", "turn.id": "turn_1", "count": 3, "failed": false, "error": "Some(\"x\")"
        });
        assert_eq!(Value::Object(line), expected);
    }
}
