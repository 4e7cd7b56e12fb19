/* A long list of which only a window is in the document: removed items are stored, and a space of their height is left. */

const MOST = 360;
const AT_ONCE = 60;

export class ListWindow {
  #body; #before = []; #after = []; #room; #heights = new WeakMap(); #height = 0;

  /* `body` contains the items; `room` precedes the first and has the height of the removed ones. */
  constructor(body, room) {
    this.#body = body;
    this.#room = room;
    this.#body.prepend(room);
  }

  get items() { return [...this.#body.children].filter((item) => item !== this.#room); }
  get first() { return this.#before[0] ?? this.items[0] ?? null; }
  get last() { return this.#after.at(-1) ?? this.items.at(-1) ?? null; }
  get hasLater() { return this.#after.length > 0; }
  get hasEarlier() { return this.#before.length > 0; }

  /* Adds items at the end; the document keeps a limited number of them. */
  append(items) {
    this.#after.push(...items);
    if (this.#after.length === items.length) this.later();
  }

  /* Adds items at the start. They wait while the window is elsewhere. */
  prepend(items) {
    if (this.hasEarlier) return void this.#before.unshift(...items);
    this.#room.after(...items);
    while (this.items.length > MOST) this.#after.unshift(this.#take(this.items.at(-1)));
  }

  /* Inserts the next items into the document. */
  later() {
    this.#body.append(...this.#after.splice(0, AT_ONCE));
    const over = this.items.length - MOST;
    for (const item of this.items.slice(0, Math.max(0, over))) {
      this.#heights.set(item, item.offsetHeight);
      this.#height += item.offsetHeight;
      this.#before.push(this.#take(item));
    }
    this.#makeRoom();
  }

  /* Inserts the previous items into the document again. */
  earlier() {
    const items = this.#before.splice(-AT_ONCE);
    for (const item of items) this.#height -= this.#heights.get(item) ?? 0;
    this.#room.after(...items);
    while (this.items.length > MOST) this.#after.unshift(this.#take(this.items.at(-1)));
    this.#makeRoom();
  }

  #take(item) {
    item.remove();
    return item;
  }

  #makeRoom() {
    this.#room.hidden = !this.hasEarlier;
    const cell = this.#room.querySelector("td") ?? this.#room;
    cell.style.height = `${Math.max(0, this.#height)}px`;
  }
}
