//! What a configuration can say: every table, its keys, the form of each value, and one line of help. The table of keys
//! and the type that is read into come from one text, so they cannot disagree.

use super::tree::Table;

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    name: &'static str,
    pub shape: Shape,
    pub help: &'static str,
}

/// The form of a value.
#[derive(Clone, Copy)]
pub enum Shape {
    Flag,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// Any text.
    Text,
    /// A text for which the check has no objection, and what it should look like.
    Checked(&'static str, fn(&str) -> Result<(), String>),
    /// Texts, each of which the check takes.
    List(&'static str, fn(&str) -> Result<(), String>),
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    Words(fn() -> Vec<&'static str>),
    /// A text, `{ file = "…" }` or `{ env = "…" }`.
    Secret,
    /// One secret or a list of them.
    Secrets,
    /// Secrets by name.
    SecretMap,
    /// Texts by name.
    TextMap,
    /// Names of sinks.
    Sinks,
    Table(fn() -> Section),
    Tables(fn() -> Section),
    /// Tables by name, each with the keys that its `type` has.
    SinkMap,
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.expected())
    }
}

/// A table: its keys, and what must hold between them.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub keys: &'static [Key],
    pub(super) rule: Option<Rule>,
}

/// Looks at a table as a whole and says what is wrong, with the key that it is about (empty for the table).
pub(super) type Rule = fn(&Table) -> Vec<(&'static str, String)>;

impl Key {
    pub const fn new(name: &'static str, shape: Shape, help: &'static str) -> Self {
        Self { name, shape, help }
    }

    /// As it is typed: Rust's own words stand in the types with `r#`.
    pub fn name(&self) -> &'static str {
        self.name.strip_prefix("r#").unwrap_or(self.name)
    }
}

impl Shape {
    /// What a value must be, to follow "expected".
    pub fn expected(&self) -> String {
        let words = |list: Vec<&str>| list.join(", ");
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Number(0, u64::MAX) => "a whole number".to_owned(),
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Text => "a text in quotes".to_owned(),
            Self::Checked(what, _) => (*what).to_owned(),
            Self::List(what, _) => format!("a list of {what}"),
            Self::Word(list) => format!("one of {}", words(list())),
            Self::Words(list) => format!("a list of {}", words(list())),
            Self::Secret => "a text in quotes, { file = \"…\" } or { env = \"…\" }".to_owned(),
            Self::Secrets => "a text in quotes, { file = \"…\" }, { env = \"…\" } or a list of them".to_owned(),
            Self::SecretMap => "a table of texts, { file = \"…\" } or { env = \"…\" }".to_owned(),
            Self::TextMap => "a table of texts".to_owned(),
            Self::Sinks => "a list of sinks' names".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) => "a list of tables".to_owned(),
            Self::SinkMap => "a table of sinks by name".to_owned(),
        }
    }
}

/// Defines a table: the type that it is read into, its defaults, and its keys with their help.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $name:ident $(, rule $rule:path)? {
            $($(#[doc = $help:literal])+ $key:ident: $type:ty = $default:expr, $shape:expr;)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $($(#[doc = $help])+ pub $key: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $name {
            pub const KEYS: &'static [$crate::config::keys::Key] =
                &[$($crate::config::keys::Key::new(stringify!($key), $shape, concat!($($help),+))),*];

            pub fn section() -> $crate::config::keys::Section {
                #[allow(unused_mut, unused_assignments)]
                let mut rule: Option<$crate::config::keys::Rule> = None;
                $(rule = Some($rule);)?
                $crate::config::keys::Section { keys: Self::KEYS, rule }
            }
        }
    };
}
pub(super) use table;
