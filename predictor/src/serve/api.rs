//! The requests and their answers.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::cli::facts_json;
use crate::query::Trained;
use crate::query::whatif::{Line, WhatIf};

/// Lines of one answer at most.
const MOST_LINES: usize = 256;

/// An answer that says what is wrong with a request.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

#[derive(Debug, Serialize)]
struct QueryAnswer {
    lines: Vec<Line>,
}

pub async fn page() -> Html<&'static str> {
    Html(include_str!("page.html"))
}

pub async fn description() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        include_str!("openapi.json"),
    )
}

pub async fn model(State(model): State<Arc<Trained>>) -> impl IntoResponse {
    Json(facts_json(&model.facts))
}

pub async fn nowhere() -> impl IntoResponse {
    Refused(
        StatusCode::NOT_FOUND,
        "no such path; there are /, /openapi.json, /v1/model and POST /v1/query".to_owned(),
    )
}

pub async fn query(
    State(model): State<Arc<Trained>>,
    request: Result<Json<WhatIf>, JsonRejection>,
) -> Response {
    let Json(request) = match request {
        Ok(request) => request,
        Err(rejection) => {
            return Refused(rejection.status(), rejection.body_text()).into_response();
        }
    };
    if request.lines() > MOST_LINES {
        let message = format!("more than {MOST_LINES} combinations of threads and batch sizes");
        return Refused(StatusCode::UNPROCESSABLE_ENTITY, message).into_response();
    }
    // Trees and SHAP values take a millisecond or two of computing, which must not hold up other requests.
    let answered = tokio::task::spawn_blocking(move || request.ask(&model)).await;
    match answered {
        Ok(Ok(lines)) => Json(QueryAnswer { lines }).into_response(),
        Ok(Err(error)) => {
            Refused(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()).into_response()
        }
        Err(_) => Refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer could not be worked out".to_owned(),
        )
        .into_response(),
    }
}
