//! What happens in each intercepted call. Which call comes here is said in `symbols`.

pub(crate) mod alloc;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod lookup;
pub(crate) mod memset;
pub(crate) mod other;
pub(crate) mod pools;
pub(crate) mod query;
pub(crate) mod stream_alloc;
