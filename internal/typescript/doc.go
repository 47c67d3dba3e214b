// Package typescript generates TypeScript types for the client in clients/ts. They are the types of
// the OpenAPI document of the HTTP API, and the types of the workflows in the manifests of
// packages. The output is sorted and therefore deterministic. The flowgen command generates the
// types of workflows, so that users need no Node.js to generate them.
package typescript
