// Keeps the page and what it has loaded. The network comes first; what was kept answers where there is none.
const KEPT = "lightloom-try";
const keep = async (address) => (await caches.open(KEPT)).add(address).catch(() => undefined);

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) => event.waitUntil(Promise.all(event.data.map(keep))));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(self.location.origin)) return;
  event.respondWith(fetch(request).catch(async () => (await caches.match(request)) ?? Response.error()));
});
