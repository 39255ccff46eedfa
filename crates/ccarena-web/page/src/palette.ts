// Colours of the theme, as numbers for canvases: style sheets name them (pages/assets/page.css), canvases cannot.

const NAMES = ["blue", "vermilion", "green", "purple", "orange", "sky", "wine", "teal", "olive", "yellow"] as const;

export interface Palette {
  flows: string[];
  ink: string;
  muted: string;
  paper: string;
  surface: string;
  raised: string;
  edge: string;
  grid: string;
  capacity: string;
  bad: string;
  partly: string;
  link: string;
}

let known: Palette | null = null;
let place: HTMLElement | null = null;

/** Sets the element whose style names the colours; the page's body if there is none. */
export const within = (element: HTMLElement): void => {
  place = element;
};

export function palette(): Palette {
  if (known) return known;
  const probe = (place ?? document.body).appendChild(document.createElement("span"));
  probe.hidden = true;
  const of = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const own = (name: keyof Palette): string => of(name);
  known = {
    flows: NAMES.map(of), ink: own("ink"), muted: own("muted"), paper: own("paper"), surface: own("surface"), raised: own("raised"),
    edge: own("edge"), grid: own("grid"), capacity: own("capacity"), bad: own("bad"), partly: own("partly"), link: own("link"),
  };
  probe.remove();
  return known;
}

export const flowColour = (index: number): string => {
  const { flows } = palette();
  return flows[index % flows.length]!;
};

/** Dashes tell flows apart that share a colour. */
export const flowDash = (index: number): number[] => [[], [6, 3], [2, 3], [8, 3, 2, 3]][Math.floor(index / NAMES.length) % 4]!;

export const forget = (): void => {
  known = null;
};
