//! Patterns over names and paths: `*` for any run of letters, `?` for one, `!` in front for "but not". Matching costs no
//! allocation, and its time is bounded by the lengths of pattern and text.

/// A pattern longer than this is a mistake.
const MAX_LEN: usize = 512;
/// `**` between two separators may stand for nothing at all, which doubles the forms that are tried.
const MAX_GAPS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("an empty pattern matches nothing; `*` matches everything")]
    Empty,
    #[error("a pattern of more than {MAX_LEN} characters")]
    Long,
    #[error("more than {MAX_GAPS} `**` in one pattern")]
    Gaps,
    #[error("`{0}` has no slash; write Kind/name, such as `Deployment/web-*`")]
    NoSlash(String),
}

/// A list of patterns: one of them must match and none of those that begin with `!`. A list of nothing but `!` takes
/// all the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    yes: Vec<Glob>,
    no: Vec<Glob>,
}

impl Patterns {
    /// For names, in which `*` stands for anything.
    pub(crate) fn names(patterns: &[String]) -> Result<Self, PatternError> {
        Self::build(patterns, |text| Ok(vec![Glob::new(text, None, false)?]))
    }

    /// For kinds: as [`Patterns::names`], and upper and lower case are the same.
    pub(crate) fn words(patterns: &[String]) -> Result<Self, PatternError> {
        Self::build(patterns, |text| Ok(vec![Glob::new(text, None, true)?]))
    }

    fn build(
        patterns: &[String],
        globs: impl Fn(&str) -> Result<Vec<Glob>, PatternError>,
    ) -> Result<Self, PatternError> {
        let mut all = Self::default();
        for pattern in patterns {
            match pattern.strip_prefix('!') {
                Some(rest) => all.no.extend(globs(rest)?),
                None => all.yes.extend(globs(pattern)?),
            }
        }
        Ok(all)
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.matches_any([text])
    }

    /// Whether the thing that all these words name is taken: one of them matches, and none is excluded.
    pub(crate) fn matches_any<const N: usize>(&self, texts: [&str; N]) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| texts.iter().any(|text| glob.matches(text)));
        (self.yes.is_empty() || any(&self.yes)) && !any(&self.no)
    }
}

/// Patterns over changed fields. One that begins with a slash is a JSON pointer, all others are about the readable
/// field. `*` stays within one step of the path, `**` crosses steps; what lies below a match matches too. A dot within
/// brackets parts no steps: `data[*]` takes `data["nginx.conf"]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    pointers: Patterns,
    fields: Patterns,
}

impl Paths {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, PatternError> {
        let is_pointer = |pattern: &&String| pattern.trim_start_matches('!').starts_with('/');
        let (pointers, fields): (Vec<_>, Vec<_>) = patterns.iter().partition(is_pointer);
        let own = |list: Vec<&String>| list.into_iter().cloned().collect::<Vec<_>>();
        Ok(Self {
            pointers: Patterns::build(&own(pointers), |text| with_below(text, '/', &["/**"]))?,
            fields: Patterns::build(&own(fields), |text| with_below(text, '.', &[".**", "[**"]))?,
        })
    }

    pub(crate) fn matches(&self, pointer: &str, field: &str) -> bool {
        let hit = |globs: &[Glob], text: &str| globs.iter().any(|glob| glob.matches(text));
        let wanted = self.pointers.yes.is_empty() && self.fields.yes.is_empty();
        (wanted || hit(&self.pointers.yes, pointer) || hit(&self.fields.yes, field))
            && !hit(&self.pointers.no, pointer)
            && !hit(&self.fields.no, field)
    }
}

/// The pattern, what lies below it, and each form in which a `**` between separators stands for nothing.
fn with_below(text: &str, separator: char, below: &[&str]) -> Result<Vec<Glob>, PatternError> {
    if text.matches("**").count() > MAX_GAPS {
        return Err(PatternError::Gaps);
    }
    let gap = format!("{separator}**{separator}");
    let mut forms = vec![String::new()];
    for (index, part) in text.split(&gap).enumerate() {
        if index > 0 {
            let narrow = forms.iter().map(|form| format!("{form}{separator}")).collect::<Vec<_>>();
            forms = forms.iter().map(|form| format!("{form}{gap}")).chain(narrow).collect();
        }
        for form in &mut forms {
            form.push_str(part);
        }
    }
    let mut globs = Vec::new();
    for form in forms {
        for rest in std::iter::once(&"").chain(below) {
            globs.push(Glob::new(&format!("{form}{rest}"), Some(separator as u8), false)?);
        }
    }
    Ok(globs)
}

/// Patterns of the form `Kind/name`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    yes: Vec<(Glob, Glob)>,
    no: Vec<(Glob, Glob)>,
}

impl Owners {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, PatternError> {
        let mut all = Self::default();
        for pattern in patterns {
            let (text, list) = match pattern.strip_prefix('!') {
                Some(rest) => (rest, &mut all.no),
                None => (pattern.as_str(), &mut all.yes),
            };
            let (kind, name) = text.split_once('/').ok_or_else(|| PatternError::NoSlash(text.to_owned()))?;
            list.push((Glob::new(kind, None, true)?, Glob::new(name, None, false)?));
        }
        Ok(all)
    }

    pub(crate) fn matches(&self, kind: &str, name: &str) -> bool {
        let any = |list: &[(Glob, Glob)]| list.iter().any(|(k, n)| k.matches(kind) && n.matches(name));
        (self.yes.is_empty() || any(&self.yes)) && !any(&self.no)
    }
}

#[derive(Clone, Debug)]
struct Glob {
    text: Box<[u8]>,
    shape: Shape,
    /// What `*` does not cross.
    separator: Option<u8>,
    /// Whether `A` and `a` are the same; `text` is in lower case then.
    fold: bool,
}

/// The common forms are compared without a search.
#[derive(Clone, Copy, Debug)]
enum Shape {
    All,
    Exact,
    /// `text*`
    Prefix,
    /// `*text`
    Suffix,
    Wild,
}

impl Glob {
    fn new(pattern: &str, separator: Option<u8>, fold: bool) -> Result<Self, PatternError> {
        match pattern.len() {
            0 => return Err(PatternError::Empty),
            len if len > MAX_LEN => return Err(PatternError::Long),
            _ => {}
        }
        let pattern = if fold { pattern.to_ascii_lowercase() } else { pattern.to_owned() };
        let plain = |text: &str| !text.contains(['*', '?']);
        let star = if separator.is_some() { "**" } else { "*" };
        let (shape, text) = if pattern.bytes().all(|b| b == b'*') && (separator.is_none() || pattern.len() > 1) {
            (Shape::All, "")
        } else if plain(&pattern) {
            (Shape::Exact, pattern.as_str())
        } else if let Some(text) = pattern.strip_suffix(star).filter(|text| plain(text)) {
            (Shape::Prefix, text)
        } else if let Some(text) = pattern.strip_prefix(star).filter(|text| plain(text)) {
            (Shape::Suffix, text)
        } else {
            (Shape::Wild, pattern.as_str())
        };
        Ok(Self { text: text.as_bytes().into(), shape, separator, fold })
    }

    fn matches(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let same = |part: &[u8]| if self.fold { part.eq_ignore_ascii_case(&self.text) } else { *part == *self.text };
        let long = text.len() >= self.text.len();
        match self.shape {
            Shape::All => true,
            Shape::Exact => same(text),
            Shape::Prefix => long && same(&text[..self.text.len()]),
            Shape::Suffix => long && same(&text[text.len() - self.text.len()..]),
            Shape::Wild => self.wild(text),
        }
    }

    /// Walks both texts once and goes back to the last star when they differ: an earlier one need not be tried again,
    /// since the last has seen everything up to the separator that holds the earlier one.
    fn wild(&self, text: &[u8]) -> bool {
        let pattern = &self.text;
        let fence = |at: Spot| at.of == Within::Step && text.get(at.at).copied() == self.separator;
        let next = |at: Spot| {
            let of = if self.separator == Some(b'.') { at.of.after(text[at.at]) } else { Within::Step };
            Spot { at: at.at + 1, of }
        };
        let same = |a: u8, b: u8| a == b || self.fold && a == b.to_ascii_lowercase();
        let (mut p, mut t) = (0, Spot { at: 0, of: Within::Step });
        let mut star: Option<(usize, Spot)> = None;
        let mut gap: Option<(usize, Spot)> = None;
        loop {
            match pattern.get(p) {
                Some(b'*') if pattern.get(p + 1) == Some(&b'*') => {
                    p += 2;
                    (gap, star) = (Some((p, t)), None);
                    continue;
                }
                Some(b'*') => {
                    p += 1;
                    star = Some((p, t));
                    continue;
                }
                Some(&c) if t.at < text.len() && (c == b'?' && !fence(t) || same(c, text[t.at])) => {
                    p += 1;
                    t = next(t);
                    continue;
                }
                None if t.at == text.len() => return true,
                _ => {}
            }
            match (star, gap) {
                (Some((after, from)), _) if from.at < text.len() && !fence(from) => {
                    (p, t) = (after, next(from));
                    star = Some((after, t));
                }
                (_, Some((after, from))) if from.at < text.len() => {
                    (p, t) = (after, next(from));
                    (gap, star) = (Some((after, t)), None);
                }
                _ => return false,
            }
        }
    }
}

/// A place in a text, and what it is within there.
#[derive(Clone, Copy)]
struct Spot {
    at: usize,
    of: Within,
}

/// What a place of a readable field is within.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Step,
    Brackets,
    Quotes,
    /// In quotes, after a backslash.
    Escape,
}

impl Within {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Step, b'[') | (Self::Quotes, b'"') => Self::Brackets,
            (Self::Brackets, b']') => Self::Step,
            (Self::Brackets, b'"') | (Self::Escape, _) => Self::Quotes,
            (Self::Quotes, b'\\') => Self::Escape,
            (same, _) => same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|p| (*p).to_owned()).collect()
    }

    #[test]
    fn names_match_as_a_shell_would() {
        for (patterns, text, expected) in [
            (&["*"][..], "anything", true),
            (&["prod-*"], "prod-eu", true),
            (&["prod-*"], "preprod-eu", false),
            (&["*-eu"], "prod-eu", true),
            (&["p*d-?u"], "prod-eu", true),
            (&["p*d-?u"], "prod-eeu", false),
            (&["*a*b*c"], "xxaxxbxxbxc", true),
            (&["shop", "bank"], "bank", true),
            (&["shop"], "shopping", false),
            (&["!kube-*"], "shop", true),
            (&["!kube-*"], "kube-system", false),
            (&["*", "!kube-*"], "kube-system", false),
            (&["prod-*", "!prod-test"], "prod-test", false),
            (&["Prod"], "prod", false),
            (&[], "anything", true),
            (&["日本*"], "日本語", true),
        ] {
            assert_eq!(Patterns::names(&list(patterns)).unwrap().matches(text), expected, "{patterns:?} {text}");
        }
    }

    #[test]
    fn kinds_match_in_any_case_and_by_any_of_their_names() {
        let patterns = Patterns::words(&list(&["deploy*", "ConfigMap"])).unwrap();
        assert!(patterns.matches_any(["Deployment", "deployments"]));
        assert!(patterns.matches_any(["ConfigMap", "configmaps"]));
        assert!(!patterns.matches_any(["Pod", "pods"]));
        let but = Patterns::words(&list(&["!pods"])).unwrap();
        assert!(!but.matches_any(["Pod", "pods"]));
    }

    #[test]
    fn paths_match_what_is_below_them_and_stars_stay_in_their_step() {
        let pointer = "/spec/template/spec/containers/0/image";
        let field = "spec.template.spec.containers[web].image";
        for (pattern, expected) in [
            ("/spec", true),
            ("/spe", false),
            ("/spec/template", true),
            ("/spec/*/spec", true),
            ("/spec/*/image", false),
            ("/spec/**/image", true),
            ("/spec/**/template", true),
            ("/**/image", true),
            ("**.image", true),
            ("spec.template.spec.containers", true),
            ("spec.template.spec.containers[web]", true),
            ("spec.template.spec.containers[db]", false),
            ("spec.template.spec.containers[*].image", true),
            ("spec.*.image", false),
            ("spec.**.image", true),
            ("status", false),
            ("!spec.**.image", false),
            ("!status", true),
        ] {
            assert_eq!(Paths::new(&list(&[pattern])).unwrap().matches(pointer, field), expected, "{pattern}");
        }
    }

    #[test]
    fn a_dot_in_brackets_parts_no_steps() {
        for (pattern, field, expected) in [
            ("data[*]", r#"data["nginx.conf"]"#, true),
            ("data[*.conf*]", r#"data["nginx.conf"]"#, true),
            ("data[?nginx?conf?]", r#"data["nginx.conf"]"#, true),
            ("data[*]", r#"data["a\"].b"]"#, true),
            ("metadata.annotations[*]", r#"metadata.annotations["example.com/x"]"#, true),
            ("metadata.*[*]", r#"metadata.annotations["example.com/x"]"#, true),
            ("spec.rules[*].http", "spec.rules[shop.example.com].http", true),
            ("spec.rules[*].http", "spec.rules[shop.example.com].http.paths[0]", true),
            ("spec.rules*", "spec.rules[shop.example.com].http", true),
            ("spec.rules[*].paths", "spec.rules[shop.example.com].http.paths", false),
            ("spec.*.paths", "spec.rules[shop.example.com].http.paths", false),
            ("spec.*.http", "spec.rules[shop.example.com].http", true),
            ("**[*].http", "spec.rules[shop.example.com].http", true),
            ("spec.**.paths", "spec.rules[shop.example.com].http.paths", true),
            ("data[*]", r#"spec.data["nginx.conf"]"#, false),
        ] {
            assert_eq!(Paths::new(&list(&[pattern])).unwrap().matches("", field), expected, "{pattern} {field}");
        }
        let pointers = Paths::new(&list(&["/data/*/b"])).unwrap();
        assert!(!pointers.matches("/data/[a/c]/b", "") && pointers.matches("/data/[a.c]/b", ""));
    }

    #[test]
    fn owners_are_kind_and_name() {
        let owners = Owners::new(&list(&["deployment/web-*", "!Deployment/web-old"])).unwrap();
        assert!(owners.matches("Deployment", "web-1"));
        assert!(!owners.matches("Deployment", "web-old"));
        assert!(!owners.matches("StatefulSet", "web-1"));
        assert_eq!(Owners::new(&list(&["web"])).unwrap_err(), PatternError::NoSlash("web".into()));
    }

    #[test]
    fn a_pattern_that_is_made_to_be_slow_is_not() {
        let patterns = Patterns::names(&list(&[&format!("{}b", "a*".repeat(200))])).unwrap();
        let start = std::time::Instant::now();
        assert!(!patterns.matches(&"a".repeat(10_000)));
        let paths = Paths::new(&list(&["/**/*a*a*a*a*/**/*a*a*a*b"])).unwrap();
        assert!(!paths.matches(&"/aaaaaaaaaaaaaaaaaaaaaaaa".repeat(40), ""));
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
        assert_eq!(Patterns::names(&list(&[&"a".repeat(1000)])).unwrap_err(), PatternError::Long);
        assert_eq!(Paths::new(&list(&[&"/**/x".repeat(9)])).unwrap_err(), PatternError::Gaps);
    }
}
