"""Template tags for components that pages share."""

from collections.abc import Iterable
from typing import Any

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def script(module: str) -> SafeString:
    """Load the bundle of a module of static/js (webapp/common/static_files.py)."""
    return format_html('<script type="module" src="{}"></script>', static(f"bundles/{module}"))


@register.simple_tag(takes_context=True)
def table_head(context: template.Context, *columns: str) -> SafeString:
    """Return the head of a table. A column is "label", "label|class" or "label|class|term"; the class "hidden" is for screen
    readers only. A term gets a "?" button: it is a row of the section of docs/reference/columns.md that a first column "@section" names.
    """
    section = columns[0].removeprefix("@") if columns[0].startswith("@") else ""
    cells = []
    for column in columns[bool(section) :]:
        label, style, term = (*column.split("|"), "", "")[:3]
        help_ = help_button(context, "column", label, f"{section}--{term}", named=False) if term else ""
        if style == "hidden":
            label, style = format_html('<span class="visually-hidden">{}</span>', label), ""
        cells.append((style, label, format_html(" {}", help_) if help_ else ""))
    row = format_html_join("", '<th scope="col" class="{}">{}{}</th>', cells)
    return format_html("<thead><tr>{}</tr></thead>", row)


@register.inclusion_tag("common/select.html")
def select_field(
    label: str, name: str, options: Iterable[Any], chosen: Any = "", blank: str = ""
) -> dict[str, Any]:
    """Return a labelled select. `options` are values or (value, label) pairs; `blank` is the label of the empty value."""
    pairs = [option if isinstance(option, tuple | list) else (option, option) for option in options]
    return {"label": label, "name": name, "options": pairs, "chosen": chosen, "blank": blank}


@register.inclusion_tag("common/post_button.html", takes_context=True)
def post_button(
    context: template.Context,
    text: str,
    view: str,
    *where: Any,
    kind: str = "small",
    of: Any = "",
    **more: Any,
) -> dict[str, Any]:
    """Return a form of one button, which posts to a view.

    `kind` and `form` are classes of the button and the form, `title` is its tooltip. `label` is the button's name for screen
    readers, in which {} is replaced by `of`; without `label` it is the text and `of`. Other arguments are hidden fields.
    """
    label = more.pop("label", f"{text} {{}}" if of else "").format(of)
    shown = {name: more.pop(name, "") for name in ("title", "form")}
    return shown | {
        "address": reverse(view, args=where),
        "text": text,
        "kind": kind,
        "label": label,
        "fields": more,
        "csrf_token": context.get("csrf_token"),
    }


@register.simple_tag(takes_context=True)
def docs_link(context: template.Context, page: str, anchor: str = "") -> SafeString:
    """Return a "?" link to a page of the documentation; nothing for visitors with a share link, who cannot read it."""
    if not page or getattr(context.get("user"), "share", None):
        return SafeString("")
    address = reverse("documents:page", args=[page]) + (f"#{anchor}" if anchor else "")
    label = f"Documentation: {page.replace('-', ' ')}"
    return format_html(
        '<a class="help-button" href="{}" title="{}" aria-label="{}">?</a>', address, label, label
    )


@register.simple_tag(takes_context=True)
def help_button(
    context: template.Context,
    kind: str,
    about: str,
    names: str | Iterable[str],
    label_id: str = "",
    named: bool = True,
) -> SafeString:
    """Return a "?" button that explains metrics, rules, fields or columns in place (webapp/documents/views.py).

    A button next to a label (`label_id`) or in a column's head (not `named`) does not repeat its text as its own name.
    """
    user = context.get("user")  # none in a file that is exported, which has no script
    if not names or user is None or getattr(user, "share", None):
        return SafeString("")
    name = f"What is {about}?" if named and not label_id else "Explain"
    described = format_html(' aria-describedby="{}"', label_id) if label_id else ""
    address = reverse("documents:explain", args=[kind])
    query = urlencode({"name": [names] if isinstance(names, str) else list(names)}, doseq=True)
    return format_html(
        '<button type="button" class="help-button" data-help="{}?{}" aria-label="{}"{} aria-haspopup="dialog"'
        ' aria-expanded="false">?</button>',
        address,
        query,
        name,
        described,
    )


@register.simple_tag(takes_context=True)
def nav_link(context: template.Context, text: str, view: str, place: str) -> SafeString:
    """Return a link of the navigation, marked on the pages whose context has this `place`."""
    current = SafeString(' aria-current="page"') if context.get("place") == place else ""
    return format_html('<a href="{}"{}>{}</a>', reverse(view), current, text)
