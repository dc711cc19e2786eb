//! Looks into the loaded libraries without asking the dynamic linker.
//!
//! We export `dlsym`, so glibc's own has to be found some other way. This runs whenever the first
//! library of a process calls `dlsym`, which may be before our own constructors: nothing here
//! allocates or takes a lock of ours.
#![expect(unsafe_code, reason = "reads the tables of loaded libraries")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};

const DT_NULL: i64 = 0;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_SONAME: i64 = 14;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const STT_FUNC: u8 = 2;
const SHN_UNDEF: u16 = 0;

/// An entry of an object's dynamic section.
#[derive(Clone, Copy)]
#[repr(C)]
struct Dyn {
    tag: i64,
    value: u64,
}

/// A library, or the program itself, while the dynamic linker shows it to us.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    path: &'a CStr,
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

/// Where an object's tables start; 0 for a table it lacks.
#[derive(Default)]
struct Tables {
    symbols: usize,
    strings: usize,
    gnu_hash: usize,
    hash: usize,
    soname: Option<usize>,
}

/// The first answer that `ask` gives, going through the loaded objects in the order of loading.
pub(crate) fn find<R, F: FnMut(&Object<'_>) -> Option<R>>(ask: F) -> Option<R> {
    let mut search = Search { ask, answer: None };
    let data = (&raw mut search).cast();
    // SAFETY: `visit` is what the linker expects, and `data` is what this instance of it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit::<R, F>), data) };
    search.answer
}

/// The address of `function` in the first of the loaded `libraries` that has it, or null.
pub(crate) fn function_in(libraries: &[&CStr], function: &CStr) -> *mut c_void {
    libraries
        .iter()
        .find_map(|library| find(|object| object.is(library).then(|| object.function(function))?))
        .unwrap_or(null_mut())
}

struct Search<R, F> {
    ask: F,
    answer: Option<R>,
}

/// # Safety
/// For `dl_iterate_phdr` to call, with a `Search` of the same types as `data`.
unsafe extern "C" fn visit<R, F: FnMut(&Object<'_>) -> Option<R>>(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: `find` passed its `Search`, and does not look at it until we are done.
    let search = unsafe { &mut *data.cast::<Search<R, F>>() };
    // SAFETY: the linker's description, good until we return.
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() || info.dlpi_name.is_null() {
        return 0;
    }
    let object = Object {
        // SAFETY: not null, and so a string.
        path: unsafe { CStr::from_ptr(info.dlpi_name) },
        base: address(info.dlpi_addr),
        // SAFETY: not null, and so an array of that many headers.
        headers: unsafe {
            std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        },
    };
    search.answer = (search.ask)(&object);
    c_int::from(search.answer.is_some())
}

impl Object<'_> {
    /// The file it was loaded from; empty for the program itself.
    pub(crate) fn path(&self) -> &CStr {
        self.path
    }

    /// The addresses it occupies.
    pub(crate) fn span(&self) -> Range<usize> {
        let loads = || self.headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let start = loads().map(|h| address(h.p_vaddr)).min().unwrap_or(0);
        let end = loads()
            .map(|h| address(h.p_vaddr.wrapping_add(h.p_memsz)))
            .max()
            .unwrap_or(0);
        self.base.wrapping_add(start)..self.base.wrapping_add(end)
    }

    /// Whether this is the library of that name, by its soname or by its file.
    pub(crate) fn is(&self, library: &CStr) -> bool {
        let path = self.path.to_bytes();
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        file == library.to_bytes() || self.soname() == Some(library)
    }

    fn soname(&self) -> Option<&CStr> {
        let tables = self.tables()?;
        tables.soname.map(|at| self.string(&tables, at))
    }

    /// The address of a function it defines.
    pub(crate) fn function(&self, name: &CStr) -> Option<*mut c_void> {
        let tables = self.tables()?;
        if tables.gnu_hash != 0 {
            self.in_gnu_hash(&tables, name)
        } else if tables.hash != 0 {
            self.in_hash(&tables, name)
        } else {
            None
        }
    }

    fn tables(&self) -> Option<Tables> {
        let dynamic = self.headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let start = self.base.wrapping_add(address(dynamic.p_vaddr));
        let mut tables = Tables::default();
        for i in 0.. {
            // SAFETY: the dynamic section, up to the entry that ends it.
            let entry: Dyn = unsafe { nth(start, i) };
            let value = address(entry.value);
            match entry.tag {
                DT_NULL => break,
                DT_HASH => tables.hash = self.pointer(value),
                DT_STRTAB => tables.strings = self.pointer(value),
                DT_SYMTAB => tables.symbols = self.pointer(value),
                DT_SONAME => tables.soname = Some(value),
                DT_GNU_HASH => tables.gnu_hash = self.pointer(value),
                _ => {}
            }
        }
        (tables.symbols != 0 && tables.strings != 0).then_some(tables)
    }

    /// glibc has added the base to the pointers of most dynamic sections, but not of those that
    /// are read-only, such as the kernel's.
    fn pointer(&self, value: usize) -> usize {
        if value < self.base {
            self.base.wrapping_add(value)
        } else {
            value
        }
    }

    fn string(&self, tables: &Tables, at: usize) -> &CStr {
        let start = with_exposed_provenance::<c_char>(tables.strings.wrapping_add(at));
        // SAFETY: an offset from the object's own tables leads to a string in its string table,
        // which stays mapped as long as `self` may be looked at.
        unsafe { CStr::from_ptr(start) }
    }

    /// The address of symbol number `i` if it defines the function `name`.
    fn defines(&self, tables: &Tables, i: u32, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: `i` comes from the object's hash table.
        let symbol: libc::Elf64_Sym = unsafe { nth(tables.symbols, index(i)) };
        let is_function = symbol.st_info & 0xf == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
        (is_function && self.string(tables, index(symbol.st_name)) == name)
            .then(|| with_exposed_provenance_mut(self.base.wrapping_add(address(symbol.st_value))))
    }

    /// `DT_GNU_HASH`: four numbers, a Bloom filter of 64-bit words, the buckets, and for every
    /// hashed symbol its hash, of which the lowest bit says that it is the last of its bucket.
    fn in_gnu_hash(&self, tables: &Tables, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the first of the four numbers.
        let buckets: u32 = unsafe { nth(tables.gnu_hash, 0) };
        // SAFETY: the second.
        let first_hashed: u32 = unsafe { nth(tables.gnu_hash, 1) };
        // SAFETY: the third.
        let filter_words: u32 = unsafe { nth(tables.gnu_hash, 2) };
        let bucket_start = tables.gnu_hash.wrapping_add(16 + 8 * index(filter_words));
        let chain_start = bucket_start.wrapping_add(4 * index(buckets));
        let hash = name.to_bytes().iter().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        let bucket = hash.checked_rem(buckets)?;
        // SAFETY: `bucket` is less than the number of buckets.
        let mut i: u32 = unsafe { nth(bucket_start, index(bucket)) };
        if i < first_hashed {
            return None;
        }
        loop {
            // SAFETY: `i` started in a bucket and has not passed the bucket's last symbol.
            let hashed: u32 = unsafe { nth(chain_start, index(i - first_hashed)) };
            if hashed | 1 == hash | 1
                && let Some(found) = self.defines(tables, i, name)
            {
                return Some(found);
            }
            if hashed & 1 == 1 {
                return None;
            }
            i += 1;
        }
    }

    /// `DT_HASH`: the numbers of buckets and of symbols, the buckets, and for every symbol the
    /// next one of its bucket.
    fn in_hash(&self, tables: &Tables, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the first number.
        let buckets: u32 = unsafe { nth(tables.hash, 0) };
        let hash = name.to_bytes().iter().fold(0_u32, |hash, byte| {
            let hash = hash.wrapping_mul(16).wrapping_add(u32::from(*byte));
            (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff
        });
        let bucket = hash.checked_rem(buckets)?;
        // SAFETY: the buckets follow the two numbers, and `bucket` is one of them.
        let mut i: u32 = unsafe { nth(tables.hash, 2 + index(bucket)) };
        while i != 0 {
            if let Some(found) = self.defines(tables, i, name) {
                return Some(found);
            }
            // SAFETY: the chain follows the buckets, and `i` is a symbol's number.
            i = unsafe { nth(tables.hash, 2 + index(buckets) + index(i)) };
        }
        None
    }
}

/// Element `i` of the array that starts at `start`.
///
/// # Safety
/// There is such an array, in memory that stays mapped, and it has such an element.
unsafe fn nth<T: Copy>(start: usize, i: usize) -> T {
    let element = with_exposed_provenance::<T>(start).wrapping_add(i);
    // SAFETY: our caller's promise.
    unsafe { element.read() }
}

/// ELF's numbers as ours. Neither cuts anything off: we are built for 64 bits only.
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits")]
fn address(value: u64) -> usize {
    value as usize
}

fn index(value: u32) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_is_found_by_its_soname_and_its_functions_where_dlsym_finds_them() {
        for name in [c"dlsym", c"dlvsym", c"dlopen", c"qsort"] {
            let found = function_in(&[c"libc.so.6", c"libdl.so.2"], name);
            // SAFETY: a string, and the handle that means everything.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert!(!found.is_null(), "{name:?}");
            assert_eq!(found, expected, "{name:?}");
        }
    }

    #[test]
    fn the_old_hash_table_gives_the_same_answers() {
        let answers = find(|object| {
            let tables = object.is(c"libc.so.6").then(|| object.tables())??;
            let old = |name| object.in_hash(&tables, name);
            let new = |name| object.in_gnu_hash(&tables, name);
            (tables.hash != 0).then(|| {
                [c"dlsym", c"qsort", c"getenv", c"no_such_thing"].map(|n| (old(n), new(n)))
            })
        });
        for (old, new) in answers.into_iter().flatten() {
            assert_eq!(old, new);
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert!(function_in(&[c"libc.so.6"], c"cuInit").is_null());
        assert!(function_in(&[c"libnone.so.1"], c"dlsym").is_null());
    }

    #[test]
    fn a_span_holds_the_functions_of_its_object() {
        let qsort = libc::qsort as *const () as usize;
        let spans = |object: &Object<'_>| object.is(c"libc.so.6").then(|| object.span());
        assert!(find(spans).unwrap().contains(&qsort));
        let ours = index as *const () as usize;
        assert!(!find(spans).unwrap().contains(&ours));
    }
}
