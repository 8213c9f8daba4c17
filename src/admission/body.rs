//! Reads a request's body within limits: its size, a deadline, and the memory that all bodies together may take. It knows
//! nothing of reviews but that their beginning may be worth keeping.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::refusal::Refusal;

/// How much is kept of a body that is too large: enough to find a uid that stands at its beginning.
const HEAD: usize = 16 * 1024;
/// How much more is read, and dropped, of a body that is too large. A client that is answered while it still writes may see
/// a broken connection instead of the answer. Objects of the 3 MiB that the API server takes grow sixfold at most and come
/// twice in a review, so this is more than it ever sends.
const DISCARDED: u64 = 64 * 1024 * 1024;

/// The memory that bodies may take together, in KiB, each permit standing for one.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Semaphore>);

impl Budget {
    /// Of this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            (bytes / 1024).min(Semaphore::MAX_PERMITS),
        )))
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let kibibytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        Arc::clone(&self.0)
            .try_acquire_many_owned(kibibytes)
            .map_err(|_| Refusal::Overloaded)
    }
}

/// A body that was read.
#[derive(Debug)]
pub(super) enum Read {
    /// All of it. The share of the budget is given back with the value.
    Whole {
        /// The body.
        bytes: Bytes,
        /// What it takes of the budget.
        share: OwnedSemaphorePermit,
    },
    /// More than the limit.
    TooLarge {
        /// Its first bytes.
        head: Bytes,
        /// Its size, as announced or as counted.
        size: u64,
    },
}

/// Reads `body`, at most `limit` bytes of it, until `deadline`.
pub(super) async fn read(
    body: Body,
    limit: usize,
    budget: &Budget,
    deadline: Instant,
) -> Result<Read, Refusal> {
    timeout_at(deadline, read_all(body, limit, budget))
        .await
        .map_err(|_| Refusal::SlowBody)?
}

async fn read_all(mut body: Body, limit: usize, budget: &Budget) -> Result<Read, Refusal> {
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return too_large(Vec::new(), body, announced).await;
    }
    let Some(first) = next(&mut body).await? else {
        let share = budget.take(0)?;
        return Ok(Read::Whole {
            bytes: Bytes::new(),
            share,
        });
    };
    let mut share = budget.take(first.len())?;
    if body.is_end_stream() && first.len() <= limit {
        return Ok(Read::Whole {
            bytes: first,
            share,
        });
    }
    let mut buffer = Vec::from(first);
    while buffer.len() <= limit {
        let Some(more) = next(&mut body).await? else {
            return Ok(Read::Whole {
                bytes: buffer.into(),
                share,
            });
        };
        share.merge(budget.take(more.len())?);
        buffer.extend_from_slice(&more);
    }
    drop(share);
    too_large(buffer, body, announced).await
}

/// Keeps the beginning of what is too large, and reads on to its end so that the client gets to read the answer.
async fn too_large(mut head: Vec<u8>, mut body: Body, announced: u64) -> Result<Read, Refusal> {
    let mut size = head.len() as u64;
    head.truncate(HEAD);
    head.shrink_to_fit();
    while size < DISCARDED
        && let Some(more) = next(&mut body).await?
    {
        size += more.len() as u64;
        let room = HEAD - head.len();
        head.extend(more.iter().take(room));
    }
    Ok(Read::TooLarge {
        head: head.into(),
        size: size.max(announced),
    })
}

/// The next piece that holds anything.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        match frame.map_err(|_| Refusal::Broken)?.into_data() {
            Ok(data) if !data.is_empty() => return Ok(Some(data)),
            // An empty piece or a trailer.
            _ => {}
        }
    }
    Ok(None)
}
