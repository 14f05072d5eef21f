"""The resources of a Bicep file as values."""

import tree_sitter
import tree_sitter_bicep


def tree(text):
    language = tree_sitter.Language(tree_sitter_bicep.language())
    return tree_sitter.Parser(language).parse(text.encode()).root_node


def mistakes(node):
    """The lines that do not parse."""
    if node.is_error or node.is_missing:
        yield node.start_point.row + 1
    for child in node.children:
        yield from mistakes(child)


def resources(root):
    """The type of each resource with its version, and its content. What only a deployment knows is text."""
    for node in root.named_children:
        if node.type == "resource_declaration":
            kind = next(child for child in node.named_children if child.type == "string")
            body = node.named_children[-1]
            # A resource with a condition.
            yield value(kind), value(body.named_children[-1] if body.type == "if_statement" else body)


def value(node):
    children = [child for child in node.named_children if child.type != "comment"]
    if node.type == "object":
        return {str(value(property.named_children[0])): value(property.named_children[-1]) for property in children}
    if node.type == "array":
        return [value(child) for child in children]
    if node.type == "number":
        return int(node.text)
    return node.text.decode().strip("'")
