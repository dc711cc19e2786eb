//! Which stream a call means, and how its work gets a place in the order: legacy-stream rules, then capture, then the queue.

use crate::capture;
use crate::context::{self, Context};
use crate::cuda::{Answer, CUstream, CuError, Handle};
use crate::gate::Lane;
use crate::handles::lock;
use crate::machine::machine;
use crate::op::Op;
use crate::stream::{Role, Stream};
use std::sync::Arc;

/// A stream and the context it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) context: Arc<Context>,
    pub(crate) stream: Arc<Stream>,
}

/// What became of submitted work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    Queued(u64),
    Captured,
}

/// The stream a handle means: null and the two special values mean default streams of the current context.
pub(crate) fn target(handle: CUstream, lane: Lane) -> Result<Target, CuError> {
    let context = context::current()?;
    let default = match (handle, lane) {
        (Handle::NULL, Lane::Legacy) | (Handle::STREAM_LEGACY, _) => {
            Some(Arc::clone(&context.legacy))
        }
        (Handle::NULL, Lane::PerThread) | (Handle::STREAM_PER_THREAD, _) => {
            Some(context.per_thread())
        }
        _ => None,
    };
    if let Some(stream) = default {
        return Ok(Target { context, stream });
    }
    let stream = machine()?.streams.get(handle)?;
    let context = if stream.context == context.handle {
        context
    } else {
        machine()?.contexts.get(stream.context)?
    };
    context.healthy()?;
    Ok(Target { context, stream })
}

impl Target {
    pub(crate) fn submit(&self, op: Op) -> Result<Submitted, CuError> {
        if let Some(capture) = capture::of(&self.stream) {
            return capture
                .append(&self.stream, op)
                .map(|()| Submitted::Captured);
        }
        let is_legacy = self.stream.role == Role::Legacy;
        if is_legacy {
            capture::legacy_work(self.context.handle)?;
        }
        let roster = lock(&self.context.roster);
        let after = if is_legacy {
            roster
                .streams
                .iter()
                .filter(|stream| stream.blocking())
                .filter_map(Stream::fence)
                .collect()
        } else if self.stream.blocking() {
            self.context.legacy.fence().into_iter().collect()
        } else {
            Vec::new()
        };
        Ok(Submitted::Queued(self.stream.push(
            &self.context,
            op,
            after,
        )))
    }

    /// Submits and waits; not for capturing streams.
    pub(crate) fn submit_and_wait(&self, op: Op) -> Answer {
        capture::not_capturing(&self.stream)?;
        if let Submitted::Queued(ticket) = self.submit(op)? {
            self.stream.wait(ticket);
        }
        self.context.healthy()
    }
}
