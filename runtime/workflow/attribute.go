package workflow

import (
	"context"

	"github.com/flowgen/flowgen/runtime/internal/flow"
)

// WithAttribute returns a context that carries an attribute in addition to those of ctx. A later
// attribute with the same key replaces the earlier one. Each run that is started with this context
// records all its attributes, for example a tenant or the trace context of the request. Code of the
// run reads them with [Attributes], and code of its steps with step.Attributes. They have no other
// effect on the run.
//
// Attributes are inherited. Children, the runs of a schedule, a run that continues as new, and the
// reruns of a run have the attributes of the run from which they come, or of the schedule as it was
// created. The contexts of reruns, and of later changes of the schedule, add none. Only the build,
// see below, is set anew for each run. If a start returns an existing run, or joins the run of
// earlier starts, the run keeps its attributes. A start from a step is a start like any other: it
// inherits nothing.
//
// Messages, payloads and failures sent to hooks, and questions carry the attributes of their context
// as well, see [MessageAttributes]. If a payload or failure completes a step from outside, the event
// that ends the attempt contains them.
//
// These operations return an *[InvalidError], and store nothing, if the context carries more than
// 32 attributes, if a key is empty or longer than 128 bytes, if a value is longer than 1,024 bytes,
// if either is not UTF-8 or contains a zero byte, or if the key is reserved: "build", "principal" and
// keys that begin with "flowgen.".
//
// The runtime sets two attributes. The value of "principal" is the name that [OnBehalfOf] has set for
// the start of the run. The value of "build" consists of the first 12 characters of the revision that
// debug.BuildInfo of the program contains, or otherwise of a hash of the program. If there is a
// revision, a worker in the same program has the same build.
func WithAttribute(ctx context.Context, key, value string) context.Context {
	return flow.WithAttribute(ctx, key, value)
}

// WithOptionalAttribute returns a context that carries an attribute as [WithAttribute] does, for
// interceptors whose attributes must not make an operation fail. If the attribute is not valid, or if
// there are already 32 others, an operation omits it and calls omitted, unless that is nil. The calls
// may be several, and concurrent. The attributes of WithAttribute have priority, whichever is
// called first, except that an optional attribute replaces one with the same key.
func WithOptionalAttribute(ctx context.Context, key, value string, omitted func()) context.Context {
	return flow.WithOptionalAttribute(ctx, key, value, omitted)
}

// Attributes returns the attributes of the run that executes the code, see [WithAttribute]. The
// caller may change the map, which is the same in every replay. It is nil if there are none.
func Attributes(ctx Context) map[string]string { return ctx.branch().Spec().Origin() }

// MessageAttributes returns the attributes of the message or hook payload that this branch has
// received last, by Receive, TryReceive or a [Select]. In code that answers a question of an [Ask],
// they are those of the question until the code receives something else. If this branch has received
// nothing, they belong to the last message that the parent branch had received when it opened this
// branch. The caller may change the map. It is nil if there are no attributes.
//
// A client sends the attributes of its context, see [WithAttribute], and the name set by
// [OnBehalfOf] as "principal". A message of [Topic.SendFrom] has the attributes of the run that has
// sent it, without a build. The attributes apply only to this message: the run keeps its own.
func MessageAttributes(ctx Context) map[string]string { return ctx.branch().Origin() }

// thisBuild returns the build that runs created by the client record.
func (c *client) thisBuild() string {
	if b := c.build.Load(); b != nil {
		return *b
	}
	return flow.ProgramBuild()
}
