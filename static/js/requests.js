/* Requests to the server's API. */

/* The JSON document at an address. Throws an Error whose message is the server's reason; `status` is the HTTP status. */
export async function readJson(address, signal = undefined) {
  const response = await fetch(address, { headers: { Accept: "application/json" }, signal });
  const document = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(document.detail ?? `the server answered ${response.status}`), { status: response.status });
  return document;
}
