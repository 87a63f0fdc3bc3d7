//! The files of the page, built in.

use std::{io::Write, sync::OnceLock};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use xxhash_rust::xxh3::xxh3_64;

use super::problem::Problem;

/// One file.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    /// The same, smaller; made when it is first asked for.
    gzip: OnceLock<Vec<u8>>,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal $content_type:expr, $file:literal;)*) => {
        static ASSETS: [Asset; [$($path),*].len()] = [$(Asset {
            path: $path, content_type: $content_type, bytes: include_bytes!(concat!("page/", $file)), gzip: OnceLock::new(),
        }),*];
    };
}

// The first one answers for every address that is none of the others: the page reads the address itself.
assets! {
    "/" HTML, "index.html";
    "/api.js" SCRIPT, "api.js";
    "/blame.js" SCRIPT, "blame.js";
    "/density.js" SCRIPT, "density.js";
    "/detail.js" SCRIPT, "detail.js";
    "/diff.js" SCRIPT, "diff.js";
    "/dom.js" SCRIPT, "dom.js";
    "/facets.js" SCRIPT, "facets.js";
    "/health.js" SCRIPT, "health.js";
    "/icon.svg" PICTURE, "icon.svg";
    "/keys.js" SCRIPT, "keys.js";
    "/lines.js" SCRIPT, "lines.js";
    "/live.js" SCRIPT, "live.js";
    "/main.js" SCRIPT, "main.js";
    "/object.js" SCRIPT, "object.js";
    "/parts.css" STYLE, "parts.css";
    "/rollup.js" SCRIPT, "rollup.js";
    "/routes.js" SCRIPT, "routes.js";
    "/row.js" SCRIPT, "row.js";
    "/signin.js" SCRIPT, "signin.js";
    "/state.js" SCRIPT, "state.js";
    "/style.css" STYLE, "style.css";
    "/theme.js" SCRIPT, "theme.js";
    "/timeline.js" SCRIPT, "timeline.js";
    "/virtual.js" SCRIPT, "virtual.js";
    "/words.js" SCRIPT, "words.js";
    "/yaml.js" SCRIPT, "yaml.js";
}

/// The file of an address; an address that is none of the API's gives the page.
pub(super) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if path == "/api" || path.starts_with("/api/") {
        return Problem::not_found(format!("there is no {path}")).into_response();
    }
    let found = ASSETS.iter().find(|asset| asset.path == path);
    let Some(asset) = found.or_else(|| ASSETS.first().filter(|_| !looks_like_a_file(path))) else {
        return Problem::not_found(format!("there is no {path}")).into_response();
    };
    let tag = HeaderValue::from_str(&format!("\"{:016x}\"", xxh3_64(asset.bytes)));
    let tag = tag.unwrap_or(HeaderValue::from_static("\"\""));
    let known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| {
        let known = known.to_str().unwrap_or_default();
        known.split(',').any(|known| known.trim().trim_start_matches("W/").as_bytes() == tag.as_bytes())
    });
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { asset.body(&headers) };
    let set = response.headers_mut();
    set.insert(header::ETAG, tag);
    // It is asked each time whether the file is still the same: a new kubediff has new files.
    set.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    set.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// `/app.js` is a file, `/objects/core/v1/configmaps/shop/app.js` an object.
fn looks_like_a_file(path: &str) -> bool {
    let name = path.trim_start_matches('/');
    name.starts_with("assets/") || (!name.contains('/') && name.contains('.'))
}

impl Asset {
    fn body(&'static self, headers: &HeaderMap) -> Response {
        let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let gzip = accepted.split(',').any(|one| {
            let mut parts = one.split(';');
            parts.next().is_some_and(|name| name.trim().eq_ignore_ascii_case("gzip"))
                && !parts.any(|q| matches!(q.trim(), "q=0" | "q=0.0"))
        });
        let mut response = match gzip {
            true => {
                let mut response = Body::from(bytes::Bytes::from_static(self.smaller())).into_response();
                response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            false => Body::from(bytes::Bytes::from_static(self.bytes)).into_response(),
        };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        response
    }

    fn smaller(&'static self) -> &'static [u8] {
        self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail.
            let _ = encoder.write_all(self.bytes);
            encoder.finish().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ASSETS;

    #[test]
    fn every_file_of_the_page_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/page");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        files.sort();
        let mut built_in: Vec<_> = ASSETS
            .iter()
            .map(|asset| match asset.path {
                "/" => "index.html",
                path => path.trim_start_matches('/'),
            })
            .collect();
        built_in.sort_unstable();
        assert_eq!(files, built_in);
    }
}
