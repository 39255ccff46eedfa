// Data that the build, or `ccarena play`, wrote into the page's elements.

export function text(id: string): string | null {
  return document.getElementById(id)?.textContent ?? null;
}

export function bytes(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
}

/** Returns what a gzip element holds. */
export async function unzipped(id: string): Promise<ArrayBuffer> {
  const packed = text(id);
  if (packed === null) throw new Error(`the page is incomplete: the element "${id}" is missing; get the page again`);
  return new Response(new Blob([bytes(packed)]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Returns files by name from JSON that has their contents in base64. */
export function files(json: string): Map<string, Uint8Array> {
  return new Map(Object.entries(JSON.parse(json) as Record<string, string>).map(([name, base64]) => [name, bytes(base64)]));
}
