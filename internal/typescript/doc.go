// Package typescript generates TypeScript types for the client in clients/ts: those of the OpenAPI
// document of the HTTP API, and those of the workflows in the manifests of packages. The output is
// sorted and therefore deterministic. The flowgen command generates the types of workflows, so that
// programs need no Node.
package typescript
