//! Standard Webhooks: an id that is the same for the same content, a timestamp, and a signature by each secret.

use std::{sync::Arc, time::SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

use super::super::{BuildError, Secret};
use crate::event::Redacted;

/// Signs the body as it is before compression, which is what receivers see after their framework took it apart.
pub(super) struct Signer {
    keys: Vec<Webhook>,
}

impl Signer {
    pub(super) fn new(secrets: &[Secret]) -> Result<Self, BuildError> {
        let key = |secret: &Secret| {
            let text = secret.expose().trim();
            match Webhook::new(text) {
                Ok(key) if text.trim_start_matches("whsec_").len() >= 16 => Ok(key),
                Ok(_) => Err(BuildError::SigningSecret("it is too short".into())),
                Err(why) => Err(BuildError::SigningSecret(why.to_string())),
            }
        };
        Ok(Self { keys: secrets.iter().map(key).collect::<Result<_, _>>()? })
    }

    /// Adds the headers that say which message it is, of when, and by whom.
    pub(super) fn sign(
        &self,
        batch: &[Arc<Redacted>],
        now: SystemTime,
        body: &[u8],
        headers: &mut HeaderMap,
    ) -> Result<(), String> {
        let id = message_id(batch);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let mut put = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).map_err(|_| format!("{name} cannot be sent"))?;
            headers.insert(HeaderName::from_static(name), value);
            Ok::<_, String>(())
        };
        put(HEADER_WEBHOOK_ID, &id)?;
        put(HEADER_WEBHOOK_TIMESTAMP, &now.to_string())?;
        let signatures: Result<Vec<String>, _> = self.keys.iter().map(|key| key.sign(&id, now, body)).collect();
        match signatures.map_err(|why| format!("it cannot be signed: {why}"))?.join(" ") {
            none if none.is_empty() => Ok(()),
            signatures => put(HEADER_WEBHOOK_SIGNATURE, &signatures),
        }
    }
}

/// The event's own id; of several, one that is the same for the same events in the same order. An attempt that has others
/// with it is another message: who receives it goes by the ids of the events.
fn message_id(batch: &[Arc<Redacted>]) -> String {
    match batch {
        [one] => one.id.clone(),
        several => {
            let mut hash = Sha256::new();
            several.iter().for_each(|event| hash.update(event.id.as_bytes()));
            let hash = hash.finalize();
            hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Event, sink::sample};

    fn event(id: &str) -> Arc<Redacted> {
        Arc::new(Redacted::invented(Event { id: id.to_owned(), ..sample::event() }))
    }

    #[test]
    fn a_message_has_the_id_of_its_one_event_or_that_of_its_content() {
        let (a, b, c) = (event("a"), event("b"), event("c"));
        assert_eq!(message_id(std::slice::from_ref(&a)), "a");
        let of =
            |events: &[&Arc<Redacted>]| message_id(&events.iter().map(|event| (*event).clone()).collect::<Vec<_>>());
        assert_eq!(of(&[&a, &b]), of(&[&a, &b]), "the same events are the same message, whenever they are sent");
        // What is tried again in other company is another message, and must not be taken for the one before.
        let ids = [of(&[&a, &b]), of(&[&a, &b, &c]), of(&[&b, &a]), of(&[&b, &c]), of(&[&a]), of(&[&b])];
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
    }
}
