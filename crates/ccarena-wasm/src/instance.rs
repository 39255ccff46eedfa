//! Instance of a module: its memory, its functions and its budget.

use ccarena_cc::schemes::split_mix::split_mix;
use wasmi::{
    Caller, Engine, Error, Linker, Memory, Store, StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc, WasmParams,
    WasmResults,
};

use crate::limits::{CREATE_FUEL, EVENT_FUEL, MEMORY_BYTES, TABLE_ELEMENTS, TABLES};

/// State of the host that a module reaches.
pub struct Host {
    seed: u64,
    drawn: u64,
    limits: StoreLimits,
}

/// Function of the interface that takes an event: the controller, the event and `cc_control`.
pub type OnEvent = TypedFunc<(u32, u32, u32), ()>;

/// An instance.
pub struct Instance {
    store: Store<Host>,
    memory: Memory,
    instance: wasmi::Instance,
}

/// Returns the functions that a module may import.
pub fn imports(engine: &Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("ccarena", "random", |mut caller: Caller<'_, Host>| {
        let host = caller.data_mut();
        host.drawn += 1;
        split_mix(host.seed, host.drawn)
    })?;
    Ok(linker)
}

impl Instance {
    /// Starts an instance whose random numbers `seed` determines.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub fn new(module: &wasmi::Module, linker: &Linker<Host>, seed: u64) -> Result<Self, String> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MEMORY_BYTES)
            .table_elements(TABLE_ELEMENTS)
            .instances(1)
            .tables(TABLES)
            .memories(1)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(module.engine(), Host { seed, drawn: 0, limits });
        store.limiter(|host| &mut host.limits);
        let start = |store: &mut Store<Host>| {
            store.set_fuel(CREATE_FUEL)?;
            linker.instantiate_and_start(store, module)
        };
        let instance = start(&mut store).map_err(|error| format!("its start: {}", why(&error, CREATE_FUEL)))?;
        let memory = instance.get_memory(&store, "memory").ok_or("it exports no memory")?;
        Ok(Self { store, memory, instance })
    }

    /// Returns the function called `name`; none if there is none of this type.
    pub fn function<P: WasmParams, R: WasmResults>(&self, name: &str) -> Option<TypedFunc<P, R>> {
        self.instance.get_typed_func(&self.store, name).ok()
    }

    /// Calls a function once, with the budget of a start.
    ///
    /// # Errors
    /// The reason why it did not return.
    pub fn call_once<P: WasmParams, R: WasmResults>(&mut self, name: &str, params: P) -> Result<R, String> {
        let function = self.function::<P, R>(name).ok_or_else(|| format!("it exports no function {name}"))?;
        self.call(&function, params, CREATE_FUEL).map_err(|reason| format!("{name}: {reason}"))
    }

    /// Calls a function for an event.
    ///
    /// # Errors
    /// The reason why it did not return.
    #[inline]
    pub fn event<P: WasmParams>(&mut self, function: &TypedFunc<P, ()>, params: P) -> Result<(), String> {
        self.call(function, params, EVENT_FUEL)
    }

    #[inline]
    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        params: P,
        fuel: u64,
    ) -> Result<R, String> {
        let called = self.store.set_fuel(fuel).and_then(|()| function.call(&mut self.store, params));
        called.map_err(|error| why(&error, fuel))
    }

    /// Returns the `N` bytes of the memory at `at`; none if they are not all inside.
    #[inline]
    pub fn read<const N: usize>(&self, at: usize) -> Option<&[u8; N]> {
        self.memory.data(&self.store).get(at..)?.first_chunk()
    }

    /// Returns the `N` bytes of the memory at `at`, to write; none if they are not all inside.
    #[inline]
    pub fn room<const N: usize>(&mut self, at: usize) -> Option<&mut [u8; N]> {
        self.memory.data_mut(&mut self.store).get_mut(at..)?.first_chunk_mut()
    }

    /// Returns the memory from `at` on.
    pub fn memory_from(&self, at: usize) -> &[u8] {
        self.memory.data(&self.store).get(at..).unwrap_or_default()
    }

    /// Returns the size of the memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }
}

/// Returns the reason of a trap.
#[cold]
fn why(error: &Error, fuel: u64) -> String {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => format!("more than {fuel} instructions in one call"),
        Some(TrapCode::GrowthOperationLimited) => {
            format!("it asks for more than {} MiB of memory, or {TABLE_ELEMENTS} table elements", MEMORY_BYTES >> 20)
        }
        Some(TrapCode::StackOverflow) => "its calls nest too deeply".into(),
        Some(code) => format!("trap: {}", code.trap_message()),
        None => error.to_string(),
    }
}
