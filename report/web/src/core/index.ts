// The whole core, for its unit tests.
export * from "./classify";
export * from "./course";
export * from "./data";
export * from "./functions";
export * from "./graph";
export * from "./leaks";
export * from "./lines";
export * from "./match";
export * from "./metrics";
export * from "./owners";
export * from "./runs";
export * from "./select";
export * from "./state";
export * from "./steps";
export * from "./tree";
export * from "./tree_build";
export * from "./units";
