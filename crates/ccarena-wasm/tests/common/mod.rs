//! Modules as text.

/// Parts of a module that tests replace.
pub struct Text<'a> {
    /// Imports.
    pub imports: &'a str,
    /// Memory, its export included.
    pub memory: &'a str,
    /// Version of the interface, as data.
    pub abi: &'a str,
    /// Flags, as data.
    pub flags: &'a str,
    /// Body of `cc_create`, which has `$config` and `$out` and returns a pointer.
    pub create: &'a str,
    /// Body of `cc_on_ack`, which has `$cc`, `$ack` and `$out`.
    pub ack: &'a str,
    /// More functions, and what else there is.
    pub more: &'a str,
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self {
            imports: "",
            memory: r#"(memory (export "memory") 1)"#,
            abi: r"\01\00\00\00",
            flags: r"\00\00\00\00",
            create: "i32.const 0",
            ack: "",
            more: "",
        }
    }
}

impl Text<'_> {
    /// Text of the module, called "try", with a parameter `gain` of 1 to 8 whose default is 2.
    pub fn wat(&self) -> String {
        let Self { imports, memory, abi, flags, create, ack, more } = self;
        format!(
            r#"(module {imports} {memory}
              (data (i32.const 1024) "{abi}{flags}\4c\04\00\00\50\04\00\00\80\04\00\00\01\00\00\00\00\00\00\00")
              (data (i32.const 1100) "try\00A test.\00")
              (data (i32.const 1152) "\00\05\00\00\06\05\00\00\0b\05\00\00\00\00\00\00"
                "\00\00\00\00\00\00\00\40" "\00\00\00\00\00\00\f0\3f" "\00\00\00\00\00\00\20\40")
              (data (i32.const 1280) "gain\00\00pkts\00\00\00")
              (func (export "cc_scratch") (result i32) i32.const 4096)
              (func (export "cc_describe") (result i32) i32.const 1024)
              (func (export "cc_create") (param $config i32) (param $out i32) (result i32) {create})
              (func (export "cc_on_ack") (param $cc i32) (param $ack i32) (param $out i32) {ack})
              {more})"#
        )
    }

    /// The module.
    pub fn bytes(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap()
    }
}
