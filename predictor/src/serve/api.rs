//! The requests and their answers. Every answer but the page is JSON; a refusal is `{"error": "…"}`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use opmodels::{ImportRequest, Importer, Source as ModelSource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::Trained;
use crate::query::answer::Detail;
use crate::query::batch::{Reply, replies, reply};
use crate::query::network::NetworkAnswer;
use crate::query::whatif::WhatIf;

/// State of the server that answers come from.
pub struct Served {
    /// The model.
    pub model: Trained,
    /// The importer of the zoo's models, one at a time; missing if it is not installed.
    pub importer: Option<Mutex<Importer>>,
}

/// A question about a whole model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WholeQuery {
    /// Name in the zoo.
    model: String,
    /// Batch size; the model's own without.
    #[serde(default)]
    batch: Option<u64>,
    /// Tokens or steps, for models that have them.
    #[serde(default)]
    seqlen: Option<u64>,
    /// Numbers of threads; 1 if empty.
    #[serde(default)]
    threads: Vec<u64>,
    /// The machine, where the model knows several.
    #[serde(default)]
    machine: Option<String>,
}

/// Queries of one batch at most.
const MAX_QUERIES: usize = 10_000;
/// Level of the intervals of whole models.
const LEVEL: f64 = 0.9;

/// An answer that says what is wrong with a request.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        // Messages speak of options; a request has fields of the same names.
        let message = self.1.replace("--", "");
        (self.0, Json(json!({ "error": message }))).into_response()
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

pub async fn model(State(served): State<Arc<Served>>) -> impl IntoResponse {
    let mut summary = served.model.facts.summary();
    let names = served.importer.as_ref().map(|importer| {
        let importer = importer.lock().unwrap_or_else(PoisonError::into_inner);
        let models = importer.registry.models.iter();
        models.map(|model| model.name.clone()).collect::<Vec<_>>()
    });
    summary["models"] = json!(names.unwrap_or_default());
    Json(summary)
}

/// A whole model of the zoo at several numbers of threads. Its first import takes seconds.
pub async fn whole(
    State(served): State<Arc<Served>>,
    request: Result<Json<WholeQuery>, JsonRejection>,
) -> Response {
    let answered = async {
        let Json(query) = request?;
        beside(move || answers_of(&served, &query)).await?
    };
    answered
        .await
        .map_or_else(IntoResponse::into_response, |answers| {
            Json(json!({ "answers": answers })).into_response()
        })
}

fn answers_of(served: &Served, query: &WholeQuery) -> Result<Vec<NetworkAnswer>, Refused> {
    let refused = |message: String| Refused(StatusCode::UNPROCESSABLE_ENTITY, message);
    let importer = served.importer.as_ref().ok_or_else(|| {
        refused("whole models cannot be asked here: the importer is not set up".to_owned())
    })?;
    let trained = &served.model;
    let machine = trained
        .machine(query.machine.as_deref())
        .map_err(|e| refused(e.to_string()))?;
    let threads = match query.threads.as_slice() {
        [] => vec![1],
        some => some.to_vec(),
    };
    for &threads in &threads {
        trained
            .check_threads(threads, machine)
            .map_err(|e| refused(e.to_string()))?;
    }
    let request = ImportRequest {
        batch: query.batch,
        seqlen: query.seqlen,
        ..ImportRequest::new(ModelSource::LOCAL, &query.model)
    };
    let imported = importer
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .import(&request, &mut |_| {})
        .map_err(|e| refused(e.to_string()))?;
    let answers = threads
        .iter()
        .map(|&threads| trained.network(&imported.graph, threads, machine, LEVEL, Detail::Short));
    answers
        .collect::<Result<_, _>>()
        .map_err(|e| refused(e.to_string()))
}

pub async fn nowhere() -> impl IntoResponse {
    let message = "no such path; there are /, /openapi.json, /v1/model, POST /v1/query, POST /v1/whole and POST /v1/batch";
    Refused(StatusCode::NOT_FOUND, message.to_owned())
}

pub async fn other_method() -> impl IntoResponse {
    let message = "this path takes another method; /openapi.json says which";
    Refused(StatusCode::METHOD_NOT_ALLOWED, message.to_owned())
}

/// Ends a request that takes too long, for example because its body does not arrive.
pub async fn in_time(longest: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(longest, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("the request took more than {} s", longest.as_secs());
            Refused(StatusCode::REQUEST_TIMEOUT, message).into_response()
        }
    }
}

/// Runs `work` on a thread of its own, so that the threads that listen can answer other requests.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let message = "the answer could not be worked out".to_owned();
        Refused(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}

pub async fn query(
    State(served): State<Arc<Served>>,
    request: Result<Json<WhatIf>, JsonRejection>,
) -> Response {
    let answered = async {
        let Json(query) = request?;
        beside(move || reply(&served.model, Ok(query), Detail::Full)).await
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
    State(served): State<Arc<Served>>,
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
        beside(move || replies(&served.model, queries, Detail::Short)).await
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
        let paths = [
            "/",
            "/openapi.json",
            "/v1/batch",
            "/v1/model",
            "/v1/query",
            "/v1/whole",
        ];
        let whole = &described["components"]["schemas"]["WholeQuery"];
        let query: WholeQuery = serde_json::from_value(whole["example"].clone()).unwrap();
        assert_eq!(
            names(&whole["properties"]),
            names(&serde_json::to_value(query).unwrap())
        );
        assert_eq!(names(&described["paths"]), paths.map(str::to_owned).into());
    }
}
