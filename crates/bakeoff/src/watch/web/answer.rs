//! What the server answers, and the names in its paths.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::sync::mpsc;

/// The header fields that the server reads.
const FIELDS: [HeaderName; 3] = [header::HOST, header::COOKIE, header::AUTHORIZATION];

/// The header fields of each answer that do not depend on it.
const SAFETY: [(&str, &str); 5] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(super) type Answer = Response<Body>;

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Body {
    Whole(Option<Bytes>),
    /// Events until the sender is dropped.
    Events(mpsc::Receiver<Bytes>),
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Events(events) => events.poll_recv(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
        }
    }
}

pub(super) fn page(page: String) -> Answer {
    let policy = judge::topics::live::document::policy();
    new("text/html; charset=utf-8", &policy, whole(page))
}

pub(super) fn report(report: Vec<u8>) -> Answer {
    let policy = judge::topics::live::document::REPORT_POLICY;
    new("text/html; charset=utf-8", policy, whole(report))
}

pub(super) fn events(events: mpsc::Receiver<Bytes>) -> Answer {
    let body = Body::Events(events);
    new("text/event-stream", "default-src 'none'", body)
}

pub(super) fn text(status: StatusCode, text: &str) -> Answer {
    let body = whole(format!("{text}\n"));
    let mut answer = new("text/plain; charset=utf-8", "default-src 'none'", body);
    *answer.status_mut() = status;
    answer
}

/// An answer with only a status.
pub(super) fn status_only(status: StatusCode) -> Answer {
    text(status, status.canonical_reason().unwrap_or_default())
}

/// A redirection to a path of this server.
pub(super) fn moved(status: StatusCode, to: &str) -> Answer {
    match HeaderValue::from_str(to) {
        Ok(to) => with(status_only(status), header::LOCATION, to),
        Err(_) => status_only(StatusCode::BAD_REQUEST),
    }
}

/// An answer with another header field.
pub(super) fn with(mut answer: Answer, name: HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}

fn whole(body: impl Into<Bytes>) -> Body {
    Body::Whole(Some(body.into()))
}

fn new(kind: &'static str, policy: &str, body: Body) -> Answer {
    let policy = HeaderValue::from_str(policy).expect("policies are visible ASCII");
    let mut answer = Response::new(body);
    let fields = answer.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    fields.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in SAFETY {
        fields.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The answer to a request that no page of this server sends.
pub(super) fn refuse_invalid(request: &Parts) -> Option<Answer> {
    if request.method != Method::GET && request.method != Method::HEAD {
        let answer = status_only(StatusCode::METHOD_NOT_ALLOWED);
        let allowed = HeaderValue::from_static("GET, HEAD");
        return Some(with(answer, header::ALLOW, allowed));
    }
    // Two Host fields are invalid (RFC 9112, section 3.2); the others must not be repeated either.
    let is_valid = |name: &HeaderName| {
        let mut values = request.headers.get_all(name).iter();
        values.next().is_none_or(|value| value.to_str().is_ok()) && values.next().is_none()
    };
    let is_path = request.uri.scheme().is_none() && request.uri.path().starts_with('/');
    let is_valid = is_path && FIELDS.iter().all(is_valid);
    (!is_valid).then(|| status_only(StatusCode::BAD_REQUEST))
}

/// The value of a header field, or an empty text.
pub(super) fn field(request: &Parts, name: HeaderName) -> &str {
    let value = request.headers.get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Characters to encode in a name. Dots are decoded again, except in names that start with a dot.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Encodes a name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let encoded = utf8_percent_encode(name, ENCODED).to_string();
    if name.starts_with('.') {
        encoded
    } else {
        encoded.replace("%2E", ".")
    }
}

/// Decodes a part of a path; `None` if it is not valid UTF-8.
pub(super) fn decoded(part: &str) -> Option<String> {
    let name = percent_decode_str(part).decode_utf8();
    name.ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_names_are_decoded_unchanged() {
        for name in ["web-static", "..", ".", "a b", "<b>&\"'%41", "ä/ö", "007.2"] {
            let part = encoded(name);
            assert!(
                !part.contains(['/', ' ', '<', '"']) && part != "..",
                "{part}"
            );
            assert_eq!(decoded(&part).as_deref(), Some(name));
        }
        assert_eq!(decoded("%ff"), None);
    }
}
