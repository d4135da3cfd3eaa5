//! The requests and their answers. Every answer but the page is JSON; one that says no is `{"error": "…"}`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use crate::model::Trained;
use crate::query::answer::Detail;
use crate::query::batch::{Reply, replies, reply};
use crate::query::whatif::WhatIf;

/// Queries of one batch at most.
const MAX_QUERIES: usize = 10_000;

/// An answer that says what is wrong with a request.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<JsonRejection> for Refused {
    fn from(rejection: JsonRejection) -> Self {
        Self(rejection.status(), rejection.body_text())
    }
}

#[derive(Debug, Serialize)]
struct Replies {
    answers: Vec<Reply>,
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
    Json(model.facts.summary())
}

pub async fn nowhere() -> impl IntoResponse {
    let message =
        "no such path; there are /, /openapi.json, /v1/model, POST /v1/query and POST /v1/batch";
    Refused(StatusCode::NOT_FOUND, message.to_owned())
}

pub async fn other_method() -> impl IntoResponse {
    let message = "this path takes another method; /openapi.json says which";
    Refused(StatusCode::METHOD_NOT_ALLOWED, message.to_owned())
}

/// Gives up on a request that takes too long, such as one whose body does not come.
pub async fn in_time(longest: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(longest, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("the request took more than {} s", longest.as_secs());
            Refused(StatusCode::REQUEST_TIMEOUT, message).into_response()
        }
    }
}

/// Works something out beside the threads that listen, which would hold up other requests otherwise.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let message = "the answer could not be worked out".to_owned();
        Refused(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}

pub async fn query(
    State(model): State<Arc<Trained>>,
    request: Result<Json<WhatIf>, JsonRejection>,
) -> Response {
    let answered = async {
        let Json(query) = request?;
        beside(move || reply(&model, Ok(query), Detail::Full)).await
    };
    match answered.await {
        Ok(Reply::Refused { error }) => {
            Refused(StatusCode::UNPROCESSABLE_ENTITY, error).into_response()
        }
        Ok(lines) => Json(lines).into_response(),
        Err(refused) => refused.into_response(),
    }
}

pub async fn batch(
    State(model): State<Arc<Trained>>,
    request: Result<Json<Vec<Value>>, JsonRejection>,
) -> Response {
    let answered = async {
        let Json(queries) = request?;
        if queries.len() > MAX_QUERIES {
            let message = format!("more than {MAX_QUERIES} queries; ask in several batches");
            return Err(Refused(StatusCode::UNPROCESSABLE_ENTITY, message));
        }
        let read = |value| serde_json::from_value::<WhatIf>(value).map_err(|e| e.to_string());
        let queries = queries.into_iter().map(read).collect();
        beside(move || replies(&model, queries, Detail::Short)).await
    };
    match answered.await {
        Ok(answers) => Json(Replies { answers }).into_response(),
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The description names what a query really has, and nothing else.
    #[test]
    fn the_description_is_of_these_queries_and_answers() {
        let text = include_str!("openapi.json");
        let described: Value = serde_json::from_str(text).unwrap();
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let schema = &described["components"]["schemas"]["Query"];
        let query: WhatIf = serde_json::from_value(schema["example"].clone()).unwrap();
        let fields = serde_json::to_value(query).unwrap();
        assert_eq!(names(&schema["properties"]), names(&fields));
        let kinds: Vec<&str> = schema["properties"]["op"]["enum"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(kinds, crate::query::operator::OPS);
        let paths = ["/", "/openapi.json", "/v1/batch", "/v1/model", "/v1/query"];
        assert_eq!(names(&described["paths"]), paths.map(str::to_owned).into());
    }
}
