"""C++ that writes structs as msgpack, their fields in the order declared, and the messages of a link."""

from __future__ import annotations

from msgspec.inspect import LiteralType, StructType, Type

from daemon.declarations import DeclarationError, children


def struct_writer(struct: StructType) -> str:
    """``void write(Writer&, const Struct&)``; found by the type of its argument, so in no unnamed namespace."""
    name = struct.cls.__name__
    tagged = struct.tag_field is not None
    lines = [
        f"static void write(Writer& out, const {name}& value) {{",
        f"  out.map({len(struct.fields) + tagged});",
        *([f'  out.text("{struct.tag_field}");', f'  out.text("{struct.tag}");'] if tagged else []),
        *(f'  out.text("{field.name}");\n  {_write(field.type, f"value.{field.name}")};' for field in struct.fields),
        "}\n",
    ]
    return "\n".join(lines)


def encoder(name: str) -> str:
    """``void encode(const Struct&, std::string&)``."""
    return (
        f"void encode(const {name}& value, std::string& out) {{\n"
        "  out.clear();\n  Writer writer(out);\n  write(writer, value);\n}\n"
    )


def _write(declared: Type, value: str) -> str:
    if isinstance(declared, LiteralType):
        return f"out.text(to_string({value}))"
    if not isinstance(declared, StructType) and any(isinstance(child, LiteralType) for child in children(declared)):
        raise DeclarationError(f"{declared}: a Literal within another type has no writer in C++")
    return f"write(out, {value})"
