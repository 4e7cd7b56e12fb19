/* A long list of which only a window is in the document: what leaves it at one end is kept aside, and room of its height is left. */

const MOST = 360;
const AT_ONCE = 60;

export class ListWindow {
  #body; #before = []; #after = []; #room; #heights = new WeakMap(); #height = 0;

  /* `body` holds the items; `room` stands before the first and takes the height of what was taken out. */
  constructor(body, room) {
    this.#body = body;
    this.#room = room;
    this.#body.prepend(room);
  }

  get items() { return [...this.#body.children].filter((each) => each !== this.#room); }
  get first() { return this.#before[0] ?? this.items[0] ?? null; }
  get last() { return this.#after.at(-1) ?? this.items.at(-1) ?? null; }
  get hasLater() { return this.#after.length > 0; }
  get hasEarlier() { return this.#before.length > 0; }

  /* Items that come after all that are known; only as many stay in the document as it can bear. */
  append(items) {
    this.#after.push(...items);
    if (this.#after.length === items.length) this.later();
  }

  /* Items that come before all that are known. While the window is elsewhere they wait. */
  prepend(items) {
    if (this.hasEarlier) return void this.#before.unshift(...items);
    this.#room.after(...items);
    while (this.items.length > MOST) this.#after.unshift(this.#take(this.items.at(-1)));
  }

  /* The next ones into the document. */
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

  /* The ones before into the document again. */
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
    const place = this.#room.querySelector("td") ?? this.#room;
    place.style.height = `${Math.max(0, this.#height)}px`;
  }
}
