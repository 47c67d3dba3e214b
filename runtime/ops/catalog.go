package ops

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

// CatalogEntry describes a workflow as its workers registered it: its queue, the JSON Schemas of
// its input and result, and its nodes if it is a struct annotated with //flow:dag. A workflow
// without input or result has a schema of type null. An empty schema means that the type is
// unknown.
type CatalogEntry = store.CatalogEntry

// CatalogQuery selects entries of the catalogue.
type CatalogQuery = store.CatalogQuery

// Catalog returns the workflows that workers registered when they started, sorted by name. It
// includes steps that use limits, without schemas, under the names of the runs that execute them:
// see event.StepOfRun. Workers of earlier releases register nothing. The error matches
// workflow.ErrNotSupported if the store keeps no catalogue.
func (c *Client) Catalog(ctx context.Context, q CatalogQuery) ([]CatalogEntry, error) {
	entries, err := capability[store.Entries](c, "read the catalogue")
	if err != nil {
		return nil, err
	}
	return store.Catalog(ctx, entries, q)
}

// Failure describes a failure group: runs that have failed, have a step that is being retried, or
// are blocked, for the same reason as far as code, error types, step and message show. IDs,
// numbers, times and quoted text in messages are ignored, as are line numbers.
// workflow.RunInfo.Group is the group of a run.
type Failure = store.FailureGroup

// FailureKind is the kind of failure of a group.
type FailureKind = store.FailureKind

// The kinds of failure groups.
const (
	FailureFailed   = store.FailureKindFailed
	FailureRetrying = store.FailureKindRetrying
	FailureBlocked  = store.FailureKindBlocked
)

// FailureGroup is a failure group with the number of runs that have entered it, and the number of
// runs in it.
type FailureGroup = store.FailureGroupInfo

// FailureFilter selects failure groups. The zero FailureFilter selects all.
type FailureFilter = store.FailureGroupQuery

// FailurePage is one page of a list of failure groups.
type FailurePage = store.FailureGroupPage

// FailureGroups returns a page of the failure groups, the most recently entered ones first. A group
// is kept for 30 days after the last run entered it, and as long as a run is in it; a failed run
// stays in its group until it is purged or deleted. The error matches workflow.ErrNotSupported if
// the store keeps no groups.
func (c *Client) FailureGroups(ctx context.Context, f FailureFilter) (FailurePage, error) {
	groups, err := capability[store.FailureGroupLister](c, "list failure groups")
	if err != nil {
		return FailurePage{}, err
	}
	return groups.FailureGroups(ctx, f)
}
