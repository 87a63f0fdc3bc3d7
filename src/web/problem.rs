//! What went wrong, in the one form that all errors of the API have.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::judge;
use crate::{history, ledger::silences};

/// `{"error": {"code", "message", "remedy"}}` with a status.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), remedy: remedy.into() }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message, "see /api/v1/openapi.json")
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        let remedy = "it may be older than what is kept, or you may not see it";
        Self::new(StatusCode::NOT_FOUND, "not-found", what, remedy)
    }

    pub fn method() -> Self {
        let remedy = "everything is read with GET; only silences are made by POST and ended by DELETE";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "this method is not allowed here", remedy)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        let remedy = "send `Authorization: Bearer TOKEN`; `kubectl create token SERVICEACCOUNT` makes one";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message, remedy)
    }

    pub fn forbidden(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message, remedy)
    }

    pub fn busy() -> Self {
        let message = "too much is asked at the moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message, "try again in a few seconds")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message, "kubediff's log says more")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message, "remedy": self.remedy}});
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<history::Error> for Problem {
    fn from(error: history::Error) -> Self {
        use history::Error::{Gap, NotKept, Open, Schema, Sql, TooLong, Unknown, Word};
        let message = error.to_string();
        match error {
            Word { .. } => Self::bad(message),
            Unknown(_) => Self::not_found(message),
            NotKept { since } => {
                let remedy = format!("ask for {since} or later; state.retention_days says how long events are kept");
                Self::new(StatusCode::GONE, "not-kept", message, remedy)
            }
            Gap(_) => {
                let remedy = "it was not watched for a while, or changes were removed to save room; later times can be asked for";
                Self::new(StatusCode::GONE, "gap", message, remedy)
            }
            TooLong { .. } => {
                let remedy =
                    "choose a time that is nearer to now or to its creation; the list of its changes has all of them";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "too-long", message, remedy)
            }
            Open { .. } | Schema { .. } | Sql(_) => {
                tracing::error!(error = %message, "history cannot be read");
                Self::internal("the state file cannot be read")
            }
        }
    }
}

impl From<silences::Error> for Problem {
    fn from(error: silences::Error) -> Self {
        match error {
            silences::Error::Sql(_) | silences::Error::Closed(_) => {
                tracing::error!(%error, "a silence cannot be stored");
                Self::internal("the state file cannot be written")
            }
            wrong => Self::bad(wrong.to_string()),
        }
    }
}

impl From<judge::Error> for Problem {
    fn from(error: judge::Error) -> Self {
        tracing::warn!(%error, "permissions cannot be checked");
        let remedy = "kubediff's service account needs to create tokenreviews and subjectaccessreviews";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-judge", "the API server did not check your permissions", remedy)
    }
}
