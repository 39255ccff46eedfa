// Experiments that the page begins with: the files of page/presets, which the build puts into the page.

export interface Preset {
  name: string;
  title: string;
  watch: string;
  text: string;
}

/** Returns a preset from its file: a scenario whose first comments are a title and what to watch. */
export function preset(name: string, text: string): Preset {
  const [title = name, watch = ""] = text.split("\n", 2).map((line) => line.replace(/^# ?/, ""));
  return { name, title, watch, text };
}
