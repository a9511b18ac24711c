//! The way of one request: in by plain HTTP/1.1, out with the identity and TLS of kube's client, back piece by piece.

use std::{convert::Infallible, net::TcpListener, sync::Arc};

use futures::{StreamExt as _, stream};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, Config};
use tokio::{sync::oneshot, task::JoinSet};

use super::{
    Asked,
    script::{Fault, Script},
};

type Body = UnsyncBoxBody<Bytes, kube::Error>;

/// Headers that are about one connection, not about the request (RFC 9110, 7.6.1). Lengths and hosts are set anew.
const HOP_HEADERS: &[header::HeaderName] = &[
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
];

/// Serves until `stop` is dropped.
pub(super) async fn serve(
    listener: TcpListener,
    config: Config,
    script: Arc<Script>,
    ready: oneshot::Sender<Result<(), String>>,
    mut stop: oneshot::Receiver<Infallible>,
) {
    let prepared = tokio::net::TcpListener::from_std(listener)
        .map_err(|error| error.to_string())
        .and_then(|listener| Ok((listener, Client::try_from(config).map_err(|error| error.to_string())?)));
    let (listener, client) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    // Dropped with this function: no connection outlives the proxy.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stop => return,
        };
        let Ok((stream, _)) = accepted else { continue };
        // A watch event is one small packet: it must not wait for a second one.
        let _ = stream.set_nodelay(true);
        let (client, script) = (client.clone(), Arc::clone(&script));
        let service = service_fn(move |request| handle(client.clone(), Arc::clone(&script), request));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}

/// An error closes the connection without an answer, as a lost API server does.
async fn handle(
    client: Client,
    script: Arc<Script>,
    request: Request<Incoming>,
) -> Result<Response<Body>, kube::Error> {
    let (parts, body) = request.into_parts();
    let uri = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let asked = Asked::new(&parts.method, &uri);
    let body = body.collect().await.map_err(kube::Error::HyperError)?.to_bytes();
    for fault in script.faults(&asked) {
        match fault {
            Fault::Fail(status) => {
                script.pass().await;
                return Ok(failure(status));
            }
            Fault::Delay(duration) => tokio::time::sleep(duration).await,
        }
    }
    let mut forwarded = Request::builder().method(parts.method).uri(uri);
    if let Some(headers) = forwarded.headers_mut() {
        headers.extend(parts.headers);
        remove_hop_headers(headers);
        // The identity is the proxy's.
        headers.remove(header::AUTHORIZATION);
    }
    let forwarded = forwarded.body(kube::client::Body::from(body)).map_err(kube::Error::HttpError)?;
    if asked.is_write() {
        let _one = script.one_write.lock().await;
        script.pass().await;
        let answer = client.send(forwarded).await?;
        // All of it: the API server is done with this write before anyone is told.
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        script.count_write();
        script.pass().await;
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        return Ok(answered(Response::from_parts(parts, body)));
    }
    script.pass().await;
    let answer = client.send(forwarded).await?;
    script.pass().await;
    Ok(answered(answer.map(|body| gated(body, script))))
}

/// Hands on each piece as it comes, unless the gate is shut.
fn gated(body: kube::client::Body, script: Arc<Script>) -> Body {
    let frames = stream::unfold((body, script), |(mut body, script)| async {
        let frame: Result<Frame<Bytes>, kube::Error> = body.frame().await?;
        script.pass().await;
        Some((frame, (body, script)))
    });
    StreamBody::new(frames.boxed()).boxed_unsync()
}

fn answered(mut answer: Response<Body>) -> Response<Body> {
    remove_hop_headers(answer.headers_mut());
    answer
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in HOP_HEADERS {
        headers.remove(name);
    }
}

/// An answer of the form that the API server gives.
fn failure(status: StatusCode) -> Response<Body> {
    let reason: String = status.canonical_reason().unwrap_or("Unknown").split(' ').collect();
    let text = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "injected by the test proxy", "reason": reason, "code": status.as_u16(),
    });
    let body = Full::new(Bytes::from(text.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
