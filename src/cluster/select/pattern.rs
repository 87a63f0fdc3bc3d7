//! A pattern over resources, as people write them in `include` and `exclude`.
//!
//! | form | fits |
//! |---|---|
//! | `*` | everything |
//! | `Deployment`, `deployments`, `deployment`, `deploy` | a kind, or a name of its resource, in any group |
//! | `deployments.apps`, `*.cert-manager.io` | a resource of a group and of the groups below it |
//! | `cert-manager.io` | all of a group |
//! | `apps/*`, `apps/deployments`, `*.cert-manager.io/*` | a group's resources at any version |
//! | `v1/configmaps`, `v1/*` | a resource of the core group; so does `core/configmaps` |
//! | `apps/v1/deployments`, `apps/*/deployments` | a resource at a version |
//!
//! `*` and `?` stand for any part of a name.

use std::{fmt, sync::Arc};

use glob_match::glob_match;

use crate::cluster::Resource;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    All,
    /// A kind, plural, singular or short name.
    Word(String),
    /// `plural.group`, or a group.
    Dotted(String),
    /// Group, version, plural.
    Path {
        group: String,
        version: String,
        plural: String,
    },
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{pattern}\" is not a pattern of resources: {problem}; did you mean \"{nearest}\"?")]
pub struct PatternError {
    pub pattern: String,
    pub problem: &'static str,
    pub nearest: String,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

/// `v1`, `v2beta3`: a name that only a version has.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else { return false };
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() == rest.len() {
        return false;
    }
    let stage = digits.strip_prefix("alpha").or_else(|| digits.strip_prefix("beta"));
    digits.is_empty() || stage.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

fn is_wild(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// A resource's name for a kind, as far as English goes.
fn plural_of(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with('s') && !kind.ends_with("ss") => kind,
        _ if kind.ends_with('s') || kind.ends_with('x') || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

impl Pattern {
    pub fn all() -> Self {
        Self { text: "*".into(), form: Form::All }
    }

    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let wrong = |problem, nearest: String| Err(PatternError { pattern: text.into(), problem, nearest });
        let fixed: String = text.trim().replace('\\', "/").trim_matches('/').into();
        if fixed.is_empty() {
            return wrong("it is empty", "*".into());
        }
        if fixed != text || text.contains("//") {
            let parts: Vec<_> = fixed.split('/').filter(|part| !part.is_empty()).collect();
            return wrong("it has a space, a slash or a backslash too many", parts.join("/"));
        }
        if let Some(odd) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-.*?/".contains(*c))) {
            let nearest = text.replace([',', ':', ' '], "/").replace(odd, "-");
            return wrong("names have letters, digits, '-' and '.', and '*' and '?' stand for any", nearest);
        }
        let parts: Vec<&str> = text.split('/').collect();
        let form = match parts.as_slice() {
            ["*"] => Form::All,
            [word] if word.contains('.') => Form::Dotted((*word).into()),
            [word] => Form::Word((*word).into()),
            [version, plural] if is_version(version) => {
                Form::Path { group: String::new(), version: (*version).into(), plural: (*plural).into() }
            }
            [group, plural] if is_version(plural) => {
                return wrong("it names a version and no resource", format!("{group}/{plural}/*"));
            }
            [group, plural] => Form::Path { group: (*group).into(), version: "*".into(), plural: (*plural).into() },
            ["api" | "apis", rest @ ..] if rest.len() >= 2 => {
                return wrong("it is a URL path and not a resource", rest.join("/"));
            }
            [version, plural, _] if is_version(version) => {
                return wrong("subresources cannot be watched", format!("{version}/{plural}"));
            }
            [group, version, plural] => {
                if !is_version(version) && !is_wild(version) {
                    let problem = "its middle part is not a version like v1 or v1beta1";
                    return wrong(problem, format!("{group}/*/{plural}"));
                }
                Form::Path { group: (*group).into(), version: (*version).into(), plural: (*plural).into() }
            }
            [group, version, plural, ..] => {
                return wrong("it has more parts than group/version/resource", format!("{group}/{version}/{plural}"));
            }
            [] => return wrong("it is empty", "*".into()),
        };
        let Form::Path { mut group, version, plural } = form else { return Ok(Self { text: text.into(), form }) };
        if group == "core" {
            group.clear();
        }
        if plural.contains(|c: char| c.is_ascii_uppercase()) {
            let resource = plural_of(&plural);
            let nearest = text.strip_suffix(plural.as_str()).unwrap_or_default().to_owned() + &resource;
            return wrong("after a slash stands the resource's name, not its kind", nearest);
        }
        if group.contains(|c: char| c.is_ascii_uppercase()) {
            return wrong("groups have lower-case letters only", text.to_ascii_lowercase());
        }
        Ok(Self { text: text.into(), form: Form::Path { group, version, plural } })
    }

    pub fn fits(&self, resource: &Resource) -> bool {
        match &self.form {
            Form::All => true,
            Form::Word(word) => {
                let lower = [&resource.plural, &resource.singular].into_iter().chain(&resource.short_names);
                glob_match(word, &resource.kind)
                    || lower.into_iter().any(|name| !name.is_empty() && glob_match(word, name))
            }
            Form::Dotted(dotted) => {
                !resource.group.is_empty()
                    && (glob_match(dotted, &resource.group_resource()) || glob_match(dotted, &resource.group))
            }
            Form::Path { group, version, plural } => {
                // `*.example.com` is the group of that name too, as it is in a certificate's words for hosts.
                let apex = group.strip_prefix("*.").is_some_and(|apex| apex == resource.group);
                let in_group = apex
                    || if group.is_empty() { resource.group.is_empty() } else { glob_match(group, &resource.group) };
                in_group && glob_match(version, &resource.version) && glob_match(plural, &resource.plural)
            }
        }
    }

    /// Whether it names this resource, rather than fitting it along with others of its group.
    pub fn names(&self, resource: &Resource) -> bool {
        let plain = match &self.form {
            Form::All => false,
            Form::Word(word) => !is_wild(word),
            Form::Dotted(dotted) => *dotted == resource.group_resource(),
            Form::Path { plural, .. } => !is_wild(plural),
        };
        plain && self.fits(resource)
    }

    /// The name of a served resource that is spelled most like this pattern.
    pub(super) fn nearest(&self, resources: &[Arc<Resource>]) -> Option<String> {
        let candidates = resources.iter().flat_map(|resource| match &self.form {
            Form::All => Vec::new(),
            Form::Word(_) => vec![resource.kind.clone(), resource.plural.clone()],
            Form::Dotted(_) => vec![resource.group_resource()],
            Form::Path { version, .. } if version == "*" => vec![format!("{}/{}", resource.group, resource.plural)],
            Form::Path { .. } => vec![resource.to_string()],
        });
        let distance = |candidate: &String| edits(&self.text.to_ascii_lowercase(), &candidate.to_ascii_lowercase());
        let best = candidates.min_by_key(distance)?;
        (distance(&best) <= 2 + self.text.len() / 4).then_some(best)
    }
}

/// How many letters have to change to get from one word to the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
