//! Modules and libraries. Any image will do: each has all the kernels of `kernels.rs`.

use crate::arg::{In, Out, Text};
use crate::context;
use crate::cuda::{Answer, CUfunction, CUkernel, CUlibrary, CUmodule, CuError, Handle};
use crate::gate::Call;
use crate::kernels;
use crate::machine::machine;
use crate::module::{Function, Module, Origin};
use crate::table::driver_calls;
use std::sync::Arc;

driver_calls! {
    "cuModuleLoadData" load_data(module: Out<CUmodule>, image: In<u8>) { cuModuleLoadData: 2000 Legacy }
    "cuModuleLoadDataEx" load_data_ex(module: Out<CUmodule>, image: In<u8>, count: u32, options: In<i32>, values: In<usize>) {
        cuModuleLoadDataEx: 2010 Legacy }
    "cuModuleLoadFatBinary" load_data(module: Out<CUmodule>, image: In<u8>) { cuModuleLoadFatBinary: 2000 Legacy }
    "cuModuleUnload" unload(module: CUmodule) { cuModuleUnload: 2000 Legacy }
    "cuModuleGetFunction" get_function(function: Out<CUfunction>, module: CUmodule, name: Text) { cuModuleGetFunction: 2000 Legacy }
    "cuModuleGetLoadingMode" loading_mode(mode: Out<i32>) { cuModuleGetLoadingMode: 11070 Legacy }
    "cuLibraryLoadData" library_load(library: Out<CUlibrary>, code: In<u8>, jit: In<i32>, jit_values: In<usize>, jit_count: u32, options: In<i32>, values: In<usize>, count: u32) {
        cuLibraryLoadData: 12000 Legacy }
    "cuLibraryUnload" library_unload(library: CUlibrary) { cuLibraryUnload: 12000 Legacy }
    "cuLibraryGetKernel" get_kernel(kernel: Out<CUkernel>, library: CUlibrary, name: Text) { cuLibraryGetKernel: 12000 Legacy }
    "cuLibraryGetModule" get_module(module: Out<CUmodule>, library: CUlibrary) { cuLibraryGetModule: 12000 Legacy }
    "cuKernelGetFunction" kernel_get_function(function: Out<CUfunction>, kernel: CUkernel) { cuKernelGetFunction: 12000 Legacy }
    "cuFuncGetModule" func_get_module(module: Out<CUmodule>, function: CUfunction) { cuFuncGetModule: 11000 Legacy }
    "cuFuncGetName" func_get_name(name: Out<usize>, function: CUfunction) { cuFuncGetName: 12030 Legacy }
    "cuKernelGetName" kernel_get_name(name: Out<usize>, kernel: CUkernel) { cuKernelGetName: 12030 Legacy }
    "cuFuncGetParamInfo" func_param_info(function: CUfunction, index: usize, offset: Out<usize>, size: Out<usize>) {
        cuFuncGetParamInfo: 12040 Legacy }
    "cuKernelGetParamInfo" kernel_param_info(kernel: CUkernel, index: usize, offset: Out<usize>, size: Out<usize>) {
        cuKernelGetParamInfo: 12040 Legacy }
    "cuFuncGetAttribute" func_get_attribute(value: Out<i32>, attribute: i32, function: CUfunction) { cuFuncGetAttribute: 2020 Legacy }
    "cuKernelGetAttribute" kernel_get_attribute(value: Out<i32>, attribute: i32, kernel: CUkernel, dev: i32) {
        cuKernelGetAttribute: 12000 Legacy }
    "cuFuncSetAttribute" func_set_attribute(function: CUfunction, attribute: i32, value: i32) { cuFuncSetAttribute: 9000 Legacy }
    "cuKernelSetAttribute" kernel_set_attribute(attribute: i32, value: i32, kernel: CUkernel, dev: i32) {
        cuKernelSetAttribute: 12000 Legacy }
}

fn load_data(_: &Call, module: Out<CUmodule>, image: In<u8>) -> Answer {
    let context = context::current()?;
    module.required()?;
    if image.is_null() {
        return Err(CuError::INVALID_VALUE);
    }
    module.put(machine()?.modules.add(Module {
        origin: Origin::Module,
        context: context.handle,
    }))
}

fn load_data_ex(
    call: &Call,
    module: Out<CUmodule>,
    image: In<u8>,
    _count: u32,
    _options: In<i32>,
    _values: In<usize>,
) -> Answer {
    load_data(call, module, image)
}

/// Its functions go with it.
fn unload_any(handle: Handle, origin: Origin) -> Answer {
    let machine = machine()?;
    if machine.modules.get(handle)?.origin != origin {
        return Err(CuError::INVALID_HANDLE);
    }
    machine.modules.remove(handle)?;
    machine
        .functions
        .retain(|function| function.module != handle);
    Ok(())
}

fn unload(_: &Call, module: CUmodule) -> Answer {
    context::current()?;
    unload_any(module, Origin::Module)
}

/// A function or kernel of that name, of a module or library; unknown names are `NOT_FOUND`.
fn look_up(handle: Handle, origin: Origin, name: Text) -> Result<Handle, CuError> {
    let machine = machine()?;
    let module = machine.modules.get(handle)?;
    if module.origin != origin {
        return Err(CuError::INVALID_HANDLE);
    }
    let kernel = kernels::find(name.get()?).ok_or(CuError::NOT_FOUND)?;
    Ok(machine.functions.add(Function {
        origin,
        context: module.context,
        module: handle,
        kernel,
    }))
}

fn get_function(_: &Call, function: Out<CUfunction>, module: CUmodule, name: Text) -> Answer {
    context::current()?;
    function.required()?;
    function.put(look_up(module, Origin::Module, name)?)
}

/// `CU_MODULE_LAZY_LOADING`
fn loading_mode(_: &Call, mode: Out<i32>) -> Answer {
    mode.put(2)
}

#[expect(clippy::too_many_arguments, reason = "CUDA's parameter list")]
fn library_load(
    _: &Call,
    library: Out<CUlibrary>,
    code: In<u8>,
    _jit: In<i32>,
    _jit_values: In<usize>,
    _jit_count: u32,
    _options: In<i32>,
    _values: In<usize>,
    _count: u32,
) -> Answer {
    library.required()?;
    if code.is_null() {
        return Err(CuError::INVALID_VALUE);
    }
    library.put(machine()?.modules.add(Module {
        origin: Origin::Library,
        context: Handle::NULL,
    }))
}

fn library_unload(_: &Call, library: CUlibrary) -> Answer {
    unload_any(library, Origin::Library)
}

fn get_kernel(_: &Call, kernel: Out<CUkernel>, library: CUlibrary, name: Text) -> Answer {
    kernel.required()?;
    kernel.put(look_up(library, Origin::Library, name)?)
}

fn get_module(_: &Call, module: Out<CUmodule>, library: CUlibrary) -> Answer {
    let context = context::current()?;
    module.required()?;
    if machine()?.modules.get(library)?.origin != Origin::Library {
        return Err(CuError::INVALID_HANDLE);
    }
    module.put(machine()?.modules.add(Module {
        origin: Origin::Module,
        context: context.handle,
    }))
}

fn of(handle: Handle, origin: Origin) -> Result<Arc<Function>, CuError> {
    machine()?.functions.get(handle).and_then(|found| {
        if found.origin == origin {
            Ok(found)
        } else {
            Err(CuError::INVALID_HANDLE)
        }
    })
}

fn kernel_get_function(_: &Call, function: Out<CUfunction>, kernel: CUkernel) -> Answer {
    let context = context::current()?;
    function.required()?;
    let found = of(kernel, Origin::Library)?;
    let made = Function {
        origin: Origin::Module,
        context: context.handle,
        module: found.module,
        kernel: found.kernel,
    };
    function.put(machine()?.functions.add(made))
}

fn func_get_module(_: &Call, module: Out<CUmodule>, function: CUfunction) -> Answer {
    module.put(of(function, Origin::Module)?.module)
}

fn func_get_name(_: &Call, name: Out<usize>, function: CUfunction) -> Answer {
    name.put(
        of(function, Origin::Module)?
            .kernel
            .c_name
            .as_ptr()
            .expose_provenance(),
    )
}

fn kernel_get_name(_: &Call, name: Out<usize>, kernel: CUkernel) -> Answer {
    name.put(
        of(kernel, Origin::Library)?
            .kernel
            .c_name
            .as_ptr()
            .expose_provenance(),
    )
}

fn param_info(function: &Function, index: usize, offset: Out<usize>, size: Out<usize>) -> Answer {
    let layout = function.kernel.layout();
    let (at, bytes) = layout.get(index).ok_or(CuError::INVALID_VALUE)?;
    offset.put(*at)?;
    size.put_if_given(*bytes);
    Ok(())
}

fn func_param_info(
    _: &Call,
    function: CUfunction,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    param_info(&*of(function, Origin::Module)?, index, offset, size)
}

fn kernel_param_info(
    _: &Call,
    kernel: CUkernel,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    param_info(&*of(kernel, Origin::Library)?, index, offset, size)
}

/// Threads per block (0), registers (4); nothing for the rest.
fn attribute(attribute: i32) -> i32 {
    match attribute {
        0 => 1024,
        4 => 32,
        _ => 0,
    }
}

fn func_get_attribute(_: &Call, value: Out<i32>, which: i32, function: CUfunction) -> Answer {
    machine()?.functions.get(function)?;
    value.put(attribute(which))
}

fn kernel_get_attribute(
    _: &Call,
    value: Out<i32>,
    which: i32,
    kernel: CUkernel,
    _dev: i32,
) -> Answer {
    of(kernel, Origin::Library)?;
    value.put(attribute(which))
}

fn func_set_attribute(_: &Call, function: CUfunction, _attribute: i32, _value: i32) -> Answer {
    machine()?.functions.get(function).map(|_| ())
}

fn kernel_set_attribute(
    _: &Call,
    _attribute: i32,
    _value: i32,
    kernel: CUkernel,
    _dev: i32,
) -> Answer {
    of(kernel, Origin::Library).map(|_| ())
}
