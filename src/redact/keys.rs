//! Which names are names of credentials. Names are read as words, so that `DB_PASSWORD` and `clientSecret` are, and
//! `secretName`, `tokenExpirationSeconds` and `author` are not.

/// Whether a field, variable or flag of this name holds a credential.
///
/// A credential word counts unless a word after it says that the value only describes or points to one (`secretName`,
/// `passwordFile`). In doubt it is one: a mask that was not needed costs less than a leak.
pub(super) fn is_credential(name: &str) -> bool {
    if PLAIN.contains(&name) {
        return false;
    }
    if let Some((_, annotation)) = name.rsplit_once('/')
        && names_a_secret(annotation)
    {
        return false;
    }
    // Of `example.com/api-key` the domain says who asks, not what.
    let name = name.rsplit('/').next().unwrap_or(name);
    if name.len() > 256 {
        return false;
    }
    if FILES.contains(&name) {
        return true;
    }
    let spaced = spaced(name);
    let words: Vec<&str> = spaced.split('_').filter(|word| word.bytes().any(|b| b.is_ascii_alphabetic())).collect();
    let words = words.as_slice();
    let Some((at, len)) = last_term(words) else { return false };
    let after = &words[at + len..];
    let keeps = KEEPS.contains(&words[at]) && !matches!(after.first(), Some(&("key" | "keys")));
    let is_owner = |word: &&str| OWNERS.contains(word) || (!keeps && PARTS.contains(word));
    if after.iter().any(|word| DESCRIBES.contains(word) && !is_owner(word)) {
        return false;
    }
    let before = &words[..at];
    let is_switch = before.iter().any(|word| LEADS.contains(word));
    let is_borrowed = match words[at] {
        "secret" | "secrets" => before.last().is_some_and(|word| NAMED.contains(word)),
        "pullsecret" | "pullsecrets" => true,
        "pass" => matches!(before, [word] if PASSES.contains(word)),
        _ => false,
    };
    let is_projection = before.ends_with(&["service", "account"]) && words[at] == "token" && after.is_empty();
    let is_qualifier = !after.is_empty() && LAST_ONLY.contains(&words[at]);
    !(is_switch || is_borrowed || is_projection || is_qualifier)
}

/// Whether an annotation of this name, behind its domain, holds the name of a Secret.
pub(super) fn names_a_secret(annotation: &str) -> bool {
    matches!(annotation, "auth-secret" | "auth-tls-secret" | "auth-proxy-secret" | "secure-verify-ca-secret")
}

/// Whether this is the name of a key that is not said to be a credential: `OPENAI_KEY` is one when its value looks like
/// it ([`is_random`]), `SORT_KEY` and `cacheKey` mostly are none.
pub(super) fn is_key(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    if name.len() > 256 || !ends_with(name, "key") || PLAIN.contains(&name) {
        return false;
    }
    let spaced = spaced(name);
    let words: Vec<&str> = spaced.split('_').filter(|word| !word.is_empty()).collect();
    matches!(words.as_slice(), [before @ .., "key"] if !before.is_empty() && !before.iter().any(|word| OPEN.contains(word)))
}

/// Whether nobody has thought this up: 32 hex digits or more, or letters and digits of both cases, without the signs that
/// divide words, paths and names.
pub(super) fn is_random(text: &str) -> bool {
    let count = |which: fn(&u8) -> bool| text.bytes().filter(which).count();
    let (digits, upper, lower) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let hex = text.len() >= 32 && digits >= 6 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mixed = text.len() >= 20
        && digits >= 3
        && upper >= 3
        && lower >= 3
        && !text.starts_with("AAAA")
        && digits + upper + lower + count(|b| b"+_=".contains(b)) == text.len();
    hex || mixed
}

/// Keys that anybody may know.
const OPEN: &[&str] = &["public", "pub", "verify", "verification", "verifying", "host", "cache", "idempotency"];

/// What a name of a credential says of the fields of an object that stands under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// `auth: {type: basic, host: h}`: about one credential. Fields with a name that describes stay readable.
    One,
    /// `passwords: {alice: x, admin: y}`: names that are anybody's, so only a few are taken to describe, and what is
    /// nested is of the same sort.
    Many,
    /// `password: {name: db, key: pw}`: where to find it.
    Reference,
    /// `password: {type: string, maxLength: 8}`: what it may look like. There is none, but perhaps as a default.
    Schema,
}

impl Group {
    /// By the name of a credential.
    pub(super) fn of(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        if name.ends_with(['s', 'S']) && !ONE.iter().any(|one| ends_with(name, one)) { Self::Many } else { Self::One }
    }

    /// What the object's own fields make of it; `text` gives those that are texts.
    pub(super) fn narrowed<T: AsRef<str>>(self, text: impl Fn(&str) -> Option<T>) -> Self {
        let is_type = |of: T| matches!(of.as_ref(), "object" | "string" | "array" | "integer" | "number" | "boolean");
        if text("type").is_some_and(is_type) {
            Self::Schema
        } else if text("key").is_some()
            && ["name", "secretName", "objectName", "path"].iter().any(|key| text(key).is_some())
        {
            Self::Reference
        } else {
            self
        }
    }
}

/// Not many of them, whatever they end in.
const ONE: &[&str] = &["pass", "sas", "credentials", "creds"];

fn ends_with(name: &str, end: &str) -> bool {
    name.len() >= end.len() && name.as_bytes()[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
}

/// Whether a field of this name, in an object under the name of a credential, only describes that.
pub(super) fn describes(name: &str, group: Group) -> bool {
    let spaced = spaced(name);
    let mut words = spaced.split('_').filter(|word| !word.is_empty());
    match group {
        Group::Schema => true,
        Group::Reference if name == "key" => true,
        Group::One | Group::Reference => {
            words.any(|word| (DESCRIBES.contains(&word) && !WHOSE.contains(&word)) || SETTINGS.contains(&word))
        }
        Group::Many => words.next_back().is_some_and(|word| POINTS.contains(&word)),
    }
}

/// Of [`DESCRIBES`] those that are as well the name of someone who has a credential: `auth: {admin: x}`.
#[rustfmt::skip]
const WHOSE: &[&str] = &[
    "admin", "reader", "readers", "backend", "webhook", "proxy", "cache", "controller", "operator", "manager",
    "injector", "syncer", "sync", "public", "watch", "list", "get", "go", "js", "ts", "py", "sh", "lua", "md", "sql",
];

/// Of [`DESCRIBES`] those that, after the word, say whose it is: `DB_PASSWORD_ADMIN`. Not all of [`WHOSE`]: `token.sh` is
/// a file, and `tokens-list` a list.
const OWNERS: &[&str] = &["admin", "webhook"];

/// More of them, but not after [`KEEPS`]: a `secrets-operator` and a `secretManager` are programs, and `credentials.user`
/// is a user.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "user", "service", "reader", "readers", "backend", "proxy", "cache", "controller", "operator", "manager",
    "injector", "syncer", "sync",
];

const KEEPS: &[&str] = &["secret", "secrets", "credential", "credentials", "cred", "creds"];

/// What else stands in an object about a credential and is none.
#[rustfmt::skip]
const SETTINGS: &[&str] = &[
    "image", "tag", "repository", "registry", "replicas", "level", "address", "protocol", "scheme", "action", "phase",
    "uid", "items", "users", "tenant", "project", "cluster", "environment", "resolver", "flow", "grant", "rules",
];

/// What describes even among names that are anybody's.
#[rustfmt::skip]
const POINTS: &[&str] = &[
    "name", "names", "ref", "refs", "selector", "path", "paths", "file", "files", "filename", "mount", "namespace",
    "namespaces", "type", "kind", "seconds", "ttl", "expiration", "expiry", "duration", "timeout", "interval", "mode",
    "policy", "length", "count", "limit", "size", "enabled", "required", "optional", "url", "uri", "issuer", "issuers",
    "audience", "audiences", "algorithm", "version", "description", "labels", "annotations", "timestamp", "time",
    "store", "items", "class", "metadata",
];

/// Names in nearly every object for which the way through the words would be wasted.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "creationTimestamp", "key", "f:creationTimestamp", "secretName", "secretKeyRef", "serviceAccountToken",
    "automountServiceAccountToken", "imagePullSecrets", "secretRef", "configMapKeyRef", "topologyKey",
    "f:key", "f:secretKeyRef", "f:secretName",
];

/// Files that hold passwords and nothing else by which they could be told.
const FILES: &[&str] = &["userlist.txt", ".netrc", "_netrc", "netrc"];

/// After a credential word: the value is about it, not it.
#[rustfmt::skip]
const DESCRIBES: &[&str] = &[
    "name", "names", "ref", "refs", "reference", "references", "selector", "selectors", "path", "paths", "file",
    "files", "filename", "dir", "directory", "mount", "mounts", "mountpath", "volume", "volumes", "expiration",
    "expires", "expiry", "expire", "seconds", "second", "minutes", "hours", "days", "ms", "ttl", "duration",
    "timeout", "interval", "period", "mode", "type", "types", "kind", "id", "ids", "policy", "policies", "length",
    "min", "max", "size", "limit", "count", "enabled", "disabled", "enable", "disable", "required", "optional",
    "namespace", "namespaces", "class", "url", "uri", "endpoint", "audience", "audiences", "issuer", "issuers",
    "algorithm", "algorithms", "alg", "version", "provider", "providers", "manager", "managers", "store", "stores",
    "controller", "operator", "rotation", "rotate", "age", "template", "templates", "labels", "annotations", "review",
    "reviews", "reviewer", "request", "requests", "status", "state", "format", "encoding", "strategy", "method",
    "methods", "property", "properties", "config", "configuration", "settings", "options", "spec", "source",
    "sources", "resource", "resources", "projection", "projections", "generator", "generation", "usage", "usages",
    "header", "headers", "field", "fields", "claim", "claims", "scope", "scopes", "index", "order", "prefix",
    "suffix", "separator", "group", "groups", "role", "roles", "user", "username", "login", "email", "host", "port",
    "service", "server", "domain", "realm", "engine", "backend", "driver", "plugin", "plugins", "webhook", "proxy",
    "cache", "change", "changed", "updated", "created", "creation", "modified", "last", "timestamp", "time", "date",
    "hash", "checksum", "sha256", "digest", "fingerprint", "title", "description", "hint", "label", "placeholder",
    "message", "error", "errors", "reason", "yaml", "yml", "json", "conf", "cfg", "ini", "toml", "xml", "sh", "py",
    "js", "ts", "go", "lua", "md", "html", "sql", "tpl", "tmpl", "rego", "crt", "cert", "certs", "certificate",
    "certificates", "ca", "pub", "public", "exists", "found", "ready", "synced", "valid", "location", "bucket",
    "region", "arn", "vault", "csi", "syncer", "sync", "injector", "reader", "readers", "admin", "list", "get",
    "watch", "lifetime", "lifespan", "validity", "algo", "algos", "encryption",
];

/// Before a credential word: the value is a switch, or a number of them.
#[rustfmt::skip]
const LEADS: &[&str] = &[
    "existing", "automount", "use", "uses", "enable", "enabled", "disable", "has", "is", "require", "requires",
    "required", "allow", "allows", "skip", "max", "min", "num", "count", "total", "public", "forbid",
];

/// Right before `secret`: the value is the name of a Secret.
const NAMED: &[&str] = &["pull", "existing", "inject"];

/// Alone before `pass`: where nginx passes a request on to.
const PASSES: &[&str] = &["proxy", "fastcgi", "uwsgi", "scgi", "grpc", "memcached"];

/// Words that only count at the end: `auth` and `basicAuth`, but not `auth-mode-of-x`.
const LAST_ONLY: &[&str] = &["auth", "pass", "authorization", "bearer", "cookie", "sas", "pin", "salt", "pw", "psk"];

#[rustfmt::skip]
pub(super) const WORDS: &[&str] = &[
    "password", "passwords", "passwd", "passwds", "pwd", "pass", "passphrase", "passphrases", "passcode", "secret",
    "secrets", "token", "tokens", "apikey", "apikeys", "credential", "credentials", "creds", "cred", "auth",
    "authorization", "dsn", "jwt", "bearer", "cookie", "htpasswd", "pgpass", "dockerconfigjson", "dockercfg",
    "connectionstring", "connectionstrings", "connstr", "sas", "mnemonic", "keytab", "masterauth", "otp",
    "kubeconfigdata", "pin", "passwort", "passkey", "psk", "salt",
];

/// Words that end so: `PGPASSWORD`, `clientsecret`, `authtoken`.
#[rustfmt::skip]
const ENDINGS: &[&str] = &[
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey",
    "accountkey", "masterkey", "encryptionkey", "signingkey", "sharedkey", "credential", "credentials", "requirepass",
    "userpass", "dbpass", "rootpass", "adminpass", "smtppass", "sshpass", "storepass", "keypass", "authkey",
    "sessionkey", "pw",
];

/// Before `key`: `apiKey`, `AWS_SECRET_ACCESS_KEY`, `client-key-data`.
#[rustfmt::skip]
const KEYED: &[&str] = &[
    "api", "access", "secret", "private", "encryption", "encrypt", "signing", "sign", "master", "shared", "account",
    "storage", "auth", "session", "license", "ssh", "deploy", "app", "application", "hmac", "aes", "rsa", "unseal",
    "service", "subscription", "integration", "ingest", "ingestion", "write", "webhook", "crypto", "cipher",
    "decryption", "admin", "root", "wrapping", "fernet", "wireguard", "functions", "preshared",
];

/// Where the last credential term stands, and how many words it has.
fn last_term(words: &[&str]) -> Option<(usize, usize)> {
    (0..words.len()).rev().find_map(|at| {
        let word = words[at];
        if WORDS.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending)) {
            return Some((at, 1));
        }
        let next = *words.get(at + 1)?;
        let pair = match next {
            "key" | "keys" => KEYED.contains(&word) || (word == "client" && words.get(at + 2) == Some(&"data")),
            "string" | "strings" | "str" => matches!(word, "connection" | "conn" | "community"),
            "signature" => word == "access",
            "data" => word == "kubeconfig",
            "word" | "phrase" => word == "pass",
            _ => false,
        };
        pair.then_some((at, 2))
    })
}

/// A name in lower case with `_` between its words: `DBPassword` and `db-password` are `db_password`.
fn spaced(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut out = String::with_capacity(bytes.len() + 8);
    for (i, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            out.push('_');
            continue;
        }
        let before = i.checked_sub(1).map_or(b'_', |i| bytes[i]);
        let after = bytes.get(i + 1).copied().unwrap_or(b'_');
        let starts_word = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if starts_word || byte.is_ascii_digit() != before.is_ascii_digit() {
            out.push('_');
        }
        out.push(byte.to_ascii_lowercase() as char);
    }
    out
}
