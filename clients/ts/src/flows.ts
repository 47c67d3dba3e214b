/**
 * What workflows take and return, by their stored names. flowgen types writes such an interface from the
 * manifests of packages; the default takes and returns anything.
 */
export interface AnyFlows {
  workflows: { [name: string]: { input: unknown; result: unknown } };
  topics: { [name: string]: unknown };
  asks: { [name: string]: { question: unknown; answer: unknown } };
  values: { [name: string]: unknown };
  streams: { [name: string]: unknown };
}

/** A name in one of the groups of F. */
export type Name<F extends AnyFlows, G extends keyof AnyFlows> = keyof F[G] & string;
