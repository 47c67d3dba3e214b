package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// topic is a subject of a live connection. It is a run or a list of runs.
type topic struct {
	name   string // name as in the request
	run    string // the run; empty for a list
	filter admin.Filter
	place  string // number of the last event sent of a run, or checksum of the page of a list; empty before the first message
}

// told is an update of the topic with the given index.
type told struct {
	topic int
	kind  string
	place string // new position of the topic; empty if it is unchanged
	news  liveNews
}

// liveNews is an admin.News whose page is encoded only once for all watchers.
type liveNews struct {
	admin.News
	Page json.RawMessage `json:"page,omitempty"`
}

// live sends updates of several topics over one connection. The ID of a message contains the
// positions of all topics in order. A reader that reconnects continues in all topics: it receives
// each event of a run exactly once, and a list only if the list has changed.
func live(q *request) error {
	pace := route.ReadPace(q.query)
	if q.query.Err != nil {
		return q.query.Err
	}
	topics, err := readTopics(q.query.Text("topics"))
	if err != nil {
		return err
	}
	lists := 0
	for _, t := range topics {
		if t.run == "" {
			lists++
		}
	}
	if err := resume(topics, q.r.Header.Get("Last-Event-ID")); err != nil {
		return err
	}
	release := q.h.shares.lists.hold(principalOf(q.r.Context()).Name, lists)
	if release == nil {
		q.w.Header().Set("Retry-After", "1")
		return admin.NewProblem(admin.CodeBusy, "the limit of watched lists of a principal is reached", "request fewer, or close another live connection")
	}
	defer release()
	q.stream(pace, func(ctx context.Context) iter.Seq2[message, error] {
		return func(yield func(message, error) bool) {
			ctx, cancel := context.WithCancel(ctx)
			news := make(chan told)
			var all sync.WaitGroup
			for i := range topics {
				all.Go(func() { q.tell(ctx, i, topics[i], news) })
			}
			go func() {
				all.Wait()
				close(news)
			}()
			defer func() {
				cancel()
				for range news { // waits until the goroutines of all topics have ended
				}
			}()
			for n := range news {
				t := &topics[n.topic]
				if n.place != "" {
					t.place = n.place
				}
				n.news.Topic = t.name
				if !yield(message{id: places(topics), kind: n.kind, data: &n.news}, nil) {
					return
				}
			}
		}
	})
	return nil
}

// readTopics parses the requested topics.
func readTopics(text string) ([]topic, error) {
	names := strings.Split(text, ",")
	if len(names) > route.MaxTopics {
		return nil, &admin.InputError{What: fmt.Sprintf("%d topics", len(names)), Fix: fmt.Sprintf("request up to %d on one connection", route.MaxTopics)}
	}
	var topics []topic
	for _, name := range names {
		kind, rest, _ := strings.Cut(name, ":")
		one := topic{name: name}
		switch kind {
		case "run":
			ref, err := url.QueryUnescape(rest)
			if err != nil || ref == "" {
				return nil, &admin.InputError{What: fmt.Sprintf("the topic %.80q does not name a run", name), Fix: "write run:ID, escaped as in a query"}
			}
			one.run = ref
		case "list":
			query := route.Runs.ReadQuery(rest)
			if one.filter = route.ReadFilter(query); query.Err == nil {
				query.Err = one.filter.Check()
			}
			if query.Err != nil {
				return nil, query.Err
			}
		default:
			return nil, &admin.InputError{What: fmt.Sprintf("there is no topic %.80q", name), Fix: "give topics=run:ID,list:FILTER, where the filter is the escaped query of " + Prefix + "runs"}
		}
		topics = append(topics, one)
	}
	return topics, nil
}

// places returns the ID of a message, which consists of the positions of all topics.
func places(topics []topic) string {
	all := make([]string, len(topics))
	for i := range topics {
		all[i] = topics[i].place
	}
	return strings.Join(all, ".")
}

// resume sets the positions of topics from the ID of the last message.
func resume(topics []topic, id string) error {
	if id == "" {
		return nil
	}
	all := strings.Split(id, ".")
	bad := &admin.InputError{What: fmt.Sprintf("the header Last-Event-ID is %.80q", id), Fix: "give the id of the last message of the same topics, in the same order"}
	if len(all) != len(topics) {
		return bad
	}
	for i, place := range all {
		if topics[i].run != "" && place != "" {
			if _, err := strconv.ParseUint(place, 10, 63); err != nil {
				return bad
			}
		}
		topics[i].place = place
	}
	return nil
}

// tell sends the updates of a topic until there are no further updates.
func (q *request) tell(ctx context.Context, i int, t topic, news chan<- told) {
	send := func(kind, place string, n liveNews) bool {
		select {
		case news <- told{i, kind, place, n}:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if t.run == "" {
		for now := range q.h.lists.watch(ctx, principalOf(q.r.Context()), t.filter) {
			switch {
			case now.err != nil:
				t.place = "" // makes sure that the next state is sent, which shows that the list is readable
				if !send("list", "", liveNews{News: admin.News{Problem: admin.ProblemOf(now.err)}}) {
					return
				}
			case now.sum == t.place: // the reader has received this state over an earlier connection
			case !send("list", now.sum, liveNews{Page: now.page}):
				return
			default:
				t.place = now.sum
			}
		}
		return
	}
	last := position{known: t.place != ""}
	last.n, _ = strconv.ParseUint(t.place, 10, 63) // resume has validated the number
	r, err := q.service.Run(ctx, t.run)
	if err != nil {
		send("over", "", liveNews{News: admin.News{Problem: admin.ProblemOf(err)}})
		return
	}
	follow := func(from uint64) iter.Seq2[admin.Event, error] {
		return q.service.Follow(ctx, r.ID, admin.EventFilter{From: from})
	}
	for m, err := range numbered(1, last, r.Events, follow, func(e *admin.Event) uint64 { return e.Seq }) {
		if err != nil {
			send("over", "", liveNews{News: admin.News{Problem: admin.ProblemOf(err)}})
			return
		}
		var n liveNews
		switch data := m.data.(type) {
		case *admin.Event:
			n.Event = data
		case admin.Lag:
			n.Lag = &data
		}
		if !send(m.kind, m.id, n) {
			return
		}
	}
	send("over", "", liveNews{News: admin.News{Ended: true}})
}
