//! What a Kubernetes API request asks for, read off its method, URL and `accept` header; and which requests a rule is about.

use std::time::Instant;

use hyper::{Method, Request, header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A collection, whole or a page of it.
    List,
    /// A collection's changes; a streaming list is one too, with `sendInitialEvents=true` in its query.
    Watch,
    /// One object, or its subresource.
    Get,
    Write,
    /// Discovery, OpenAPI, health: nothing about objects.
    Other,
}

/// A request that went through the proxy.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub verb: Verb,
    /// The plural in the URL: `configmaps`; empty for [`Verb::Other`].
    pub resource: String,
    /// Empty: all namespaces, or none.
    pub namespace: String,
    /// In which form the answer is wanted; empty: any.
    pub accept: String,
    pub at: Instant,
}

impl Seen {
    pub fn new<B>(request: &Request<B>, at: Instant) -> Self {
        let (method, uri) = (request.method(), request.uri());
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let (namespace, resource, name) = match rest {
            [] => ("", "", None),
            ["namespaces", namespace, resource, name @ ..] if !["status", "finalize"].contains(resource) => {
                (*namespace, *resource, name.first())
            }
            [resource, name @ ..] => ("", *resource, name.first()),
        };
        let watch = query.split('&').any(|pair| pair == "watch=1" || pair == "watch=true");
        let verb = match (resource, method == Method::GET, name) {
            ("", ..) => Verb::Other,
            (_, false, _) => Verb::Write,
            (_, true, _) if watch => Verb::Watch,
            (_, true, None) => Verb::List,
            (_, true, Some(_)) => Verb::Get,
        };
        Self {
            method: method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            verb,
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            accept: accept.unwrap_or_default().to_owned(),
            at,
        }
    }
}

/// Which requests are meant; what is not set matches all.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    verb: Option<Verb>,
    resource: Option<String>,
    path: Option<String>,
    query: Option<String>,
}

impl Matching {
    pub fn all() -> Self {
        Self::default()
    }

    /// `Matching::watches("configmaps")`; `""` for those of all resources.
    pub fn watches(resource: &str) -> Self {
        Self::all().verb(Verb::Watch).resource(resource)
    }

    pub fn lists(resource: &str) -> Self {
        Self::all().verb(Verb::List).resource(resource)
    }

    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = (!resource.is_empty()).then(|| resource.to_owned());
        self
    }

    /// The path holds this text.
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// The query holds this text, as it stands in the URL.
    pub fn query(mut self, part: &str) -> Self {
        self.query = Some(part.to_owned());
        self
    }

    pub fn matches(&self, seen: &Seen) -> bool {
        self.verb.is_none_or(|verb| verb == seen.verb)
            && self.resource.as_ref().is_none_or(|resource| *resource == seen.resource)
            && self.path.as_ref().is_none_or(|part| seen.path.contains(part))
            && self.query.as_ref().is_none_or(|part| seen.query.contains(part))
    }
}
