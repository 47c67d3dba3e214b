package route

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// streams lists the routes of logs and streams.
var streams = []*Route{Follow, Streams, Stream, FollowStream, Live}

// The routes that respond with server-sent events, and the routes of the streams of a run.
var (
	Follow = &Route{
		Name: "followRun", About: "The events of a run as they are appended, until it has ended.", Method: http.MethodGet, Path: "runs/{id}/follow", Role: admin.RoleViewer,
		Query: append([]Param{
			fromParam, {Name: "type", About: "any of them", Type: "string", Many: true, Enum: admin.EventTypes},
			{Name: "name", About: "events about entities of this name, such as a step or a topic", Type: "string"},
			{Name: "key", About: "events about entities with this key, or one below it", Type: "string"},
			{Name: "entity", About: "events about the entity of this id", Type: "string"},
		}, paceParams...),
		Out: reflect.TypeFor[admin.Event](), Status: http.StatusOK, Holds: true, Stream: true,
	}
	Streams = &Route{
		Name: "listStreams", About: "A page of the streams that a run writes, by name, each as it stands.", Method: http.MethodGet, Path: "runs/{id}/streams", Role: admin.RoleViewer,
		Query: []Param{{Name: "after", About: "those whose names come after this one", Type: "string"}, limitParam},
		Out:   reflect.TypeFor[admin.StreamList](), Status: http.StatusOK,
	}
	Stream = &Route{
		Name: "readStream", About: "A page of a stream that a run writes.", Method: http.MethodGet, Path: "runs/{id}/streams/{name}", Role: admin.RolePayloads,
		Query: []Param{fromChunk, {Name: "limit", About: "of chunks; 256 if it is not given, at most 1,000", Type: "integer"}},
		Out:   reflect.TypeFor[admin.ChunkPage](), Status: http.StatusOK,
	}
	FollowStream = &Route{
		Name: "followStream", About: "The chunks of a stream as they are appended, until its end.", Method: http.MethodGet, Path: "runs/{id}/streams/{name}/follow", Role: admin.RolePayloads,
		Query: append([]Param{fromChunk}, paceParams...), Out: reflect.TypeFor[admin.Chunk](), Status: http.StatusOK, Holds: true, Stream: true,
	}
)

// Live is the route for several topics over one connection.
var Live = &Route{
	Name: "live", About: "Several topics by one connection: the events of runs as they are appended, and lists of runs when they change. A list is read once a second for all its readers together.",
	Method: http.MethodGet, Path: "live", Role: admin.RoleViewer, Out: reflect.TypeFor[admin.News](), Status: http.StatusOK, Holds: true, Stream: true,
	Query: append([]Param{{Name: "topics", About: "up to 50, separated by commas: run:ID, and list:FILTER with the escaped query of runs", Type: "string"}}, paceParams...),
}

// MaxTopics is the maximum number of topics of a connection of Live.
const MaxTopics = 50

var fromChunk = Param{Name: "from", About: "number of the first chunk; the first that is kept if it is not given", Type: "integer"}

// Limits of a Pace.
const (
	maxBatch     = 1000
	maxDelay     = time.Second
	usualBatch   = 100
	usualDelay   = 25 * time.Millisecond
	batchIsWrong = "give a number from 1 to 1000"
)

var paceParams = []Param{
	{Name: "batch", About: "how many are sent at once at most; 100 if it is not given, at most 1,000", Type: "integer"},
	{Name: "delay", About: "how long one waits for others to be sent with it, as 25ms, which it is if it is not given; at most 1s", Type: "string"},
}

// Pace determines when available entries are sent. They are sent when there are Batch of them, or
// when Delay has passed since the first of them.
type Pace struct {
	Batch int
	Delay time.Duration
}

// ReadPace decodes the parameters in paceParams.
func ReadPace(q *Query) Pace {
	p := Pace{Batch: usualBatch, Delay: usualDelay}
	if q.Text("batch") != "" {
		if p.Batch = q.Number("batch"); p.Batch < 1 || p.Batch > maxBatch {
			q.fail(fmt.Sprintf("batch is %q", q.Text("batch")), batchIsWrong)
		}
	}
	if q.Text("delay") != "" {
		p.Delay = q.Duration("delay", maxDelay)
	}
	return p
}

// EventQuery encodes a filter of events as a query.
func EventQuery(f admin.EventFilter) url.Values {
	w := written{}
	w.seq("from", f.From)
	w.add("type", f.Types...)
	w.text("name", f.Name)
	w.text("key", f.Key)
	w.text("entity", f.Entity)
	return url.Values(w)
}

// ReadEventFilter decodes the result of EventQuery.
func ReadEventFilter(q *Query) admin.EventFilter {
	return admin.EventFilter{From: q.Seq("from"), Types: q.values["type"], Name: q.Text("name"), Key: q.Text("key"), Entity: q.Text("entity")}
}

// StreamQuery encodes a filter of streams as a query.
func StreamQuery(f admin.StreamFilter) url.Values {
	w := written{}
	w.text("after", f.After)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// ReadStreamFilter decodes the result of StreamQuery.
func ReadStreamFilter(q *Query) admin.StreamFilter {
	return admin.StreamFilter{After: q.Text("after"), Limit: q.Number("limit")}
}

// PageQuery encodes the beginning and the maximum length of a page of events or chunks as a query.
func PageQuery(from uint64, limit int) url.Values {
	w := written{}
	w.seq("from", from)
	w.number("limit", limit)
	return url.Values(w)
}

// GraphQuery encodes the path of a graph of a run as a query. An empty path means the first graph.
func GraphQuery(path string) url.Values {
	w := written{}
	w.add("path", path)
	return url.Values(w)
}

func (w written) seq(name string, n uint64) {
	if n != 0 {
		w.add(name, strconv.FormatUint(n, 10))
	}
}
