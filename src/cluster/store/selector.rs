//! Kubernetes label selectors: `app=web,tier in (a, b),!old`.

use std::collections::BTreeMap;

/// Which labels an object must have. The empty one takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a label selector; write it as kubectl takes it: app=web, tier!=db, env in (a, b), track, !track")]
pub struct SelectorError(String);

impl Selector {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

impl std::str::FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let wrong = || SelectorError(text.to_owned());
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = requirement_end(rest).ok_or_else(wrong)?;
            requirements.push(requirement(rest[..end].trim()).ok_or_else(wrong)?);
            rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]).trim_start();
            if rest.is_empty() && text.trim_end().ends_with(',') {
                return Err(wrong());
            }
        }
        Ok(Self(requirements))
    }
}

/// Where the first requirement ends: at a comma outside of parentheses.
fn requirement_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}

fn requirement(text: &str) -> Option<Requirement> {
    let one = |key: &str, value: &str| Some((label(key)?, vec![value_of(value)?]));
    if let Some((key, value)) = text.split_once("!=") {
        return one(key, value).map(|(key, values)| Requirement::NotIn(key, values));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return one(key, value).map(|(key, values)| Requirement::In(key, values));
    }
    if let Some((left, values)) = text.split_once('(') {
        let values = values.strip_suffix(')')?.split(',').map(value_of).collect::<Option<Vec<_>>>()?;
        let (key, word) = left.trim().rsplit_once(char::is_whitespace)?;
        return match word {
            "in" => Some(Requirement::In(label(key)?, values)),
            "notin" => Some(Requirement::NotIn(label(key)?, values)),
            _ => None,
        };
    }
    match text.strip_prefix('!') {
        Some(key) => label(key).map(Requirement::Absent),
        None => label(text).map(Requirement::Exists),
    }
}

fn label(text: &str) -> Option<String> {
    let text = text.trim();
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    (!text.is_empty() && text.chars().all(fine)).then(|| text.to_owned())
}

fn value_of(text: &str) -> Option<String> {
    let text = text.trim();
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().all(fine).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        selector.parse::<Selector>().unwrap().matches(&labels)
    }

    #[test]
    fn a_selector_reads_as_kubectl_reads_it() {
        let web = [("app", "web"), ("tier", "front")];
        for yes in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "app in (web, db),tier",
            "tier notin (back)",
            "!old",
            " app = web , tier ",
        ] {
            assert!(takes(yes, &web), "{yes}");
        }
        for no in ["app=db", "app!=web", "app in (db)", "tier notin (front,back)", "!tier", "old", "app=web,old"] {
            assert!(!takes(no, &web), "{no}");
        }
    }

    #[test]
    fn a_wrong_selector_is_named() {
        for wrong in ["app in web", "app in (web", "=web", "app=we b", "a,", "app within (web)", "!"] {
            let error = wrong.parse::<Selector>().unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
