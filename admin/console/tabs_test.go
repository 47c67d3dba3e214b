package console_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
)

// asked is a service that counts the reads of the console.
type asked struct {
	console.Service
	questions atomic.Int64
	groups    atomic.Int64
	views     atomic.Int64
	noViews   error // error that Views returns
}

func (a *asked) of(admin.Principal) console.Service { return a }

func (a *asked) Views(ctx context.Context) (admin.ViewList, error) {
	a.views.Add(1)
	if a.noViews != nil {
		return admin.ViewList{}, a.noViews
	}
	return a.Service.Views(ctx)
}

func (a *asked) Failures(ctx context.Context, f admin.FailureFilter) (admin.FailurePage, error) {
	a.groups.Add(1)
	return a.Service.Failures(ctx, f)
}

func (a *asked) Runs(ctx context.Context, f admin.Filter) (admin.RunPage, error) {
	a.questions.Add(1)
	return a.Service.Runs(ctx, f)
}

func (a *asked) Count(ctx context.Context, f admin.Filter) (admin.Counts, error) {
	a.questions.Add(1)
	return a.Service.Count(ctx, f)
}

func (a *asked) Run(ctx context.Context, ref string) (admin.Run, error) {
	a.questions.Add(1)
	return a.Service.Run(ctx, ref)
}

func (a *asked) Follow(ctx context.Context, ref string, f admin.EventFilter) iter.Seq2[admin.Event, error] {
	a.questions.Add(1)
	return a.Service.Follow(ctx, ref, f)
}

// tabs is a console whose pages a test opens.
type tabs struct {
	*admintest.Scene
	url   string
	asked *asked
}

func newTabs(t *testing.T) *tabs {
	t.Helper()
	s := admintest.NewScene(t, memstore.New(), func(_ testing.TB, direct *admin.Service) admintest.Service { return direct })
	counted := &asked{Service: s.Direct}
	server := httptest.NewServer(console.Over(counted.of, console.Config{}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return &tabs{s, server.URL, counted}
}

// page returns the page at a path.
func (s *tabs) page(path string) string {
	s.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.Fatal(err)
	}
	return textOf(s, answer)
}

// look opens a tab, and calls see with each drawing of the page until see returns true.
func (s *tabs) look(ctx context.Context, page string, see func(text string) bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/live?page="+url.QueryEscape(page), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var text strings.Builder
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text.WriteString(lines.Text())
		if lines.Text() == "" {
			if strings.HasPrefix(text.String(), "event: page") && see(text.String()) {
				return nil
			}
			text.Reset()
		}
	}
	return fmt.Errorf("the tab of %s was closed: %w", page, lines.Err())
}

// TestOPS2_ManyTabsAskAsMuchAsOne proves that 500 tabs of the same page cause as many reads of the
// store as a single tab, and that each tab receives each drawing. The page is a list of runs or a
// run.
func TestOPS2_ManyTabsAskAsMuchAsOne(t *testing.T) {
	const most = 500
	s := newTabs(t)
	ref := s.Start("talk", "order-1")
	s.Until(ref, "waiting")
	for _, c := range []struct {
		page  string
		every time.Duration
		step  func(round int) // makes a change that each tab must show
		shows func(round int) string
	}{
		{"/runs", time.Second, func(round int) { s.Start("wait", fmt.Sprintf("more-%d.", round)) }, func(round int) string { return fmt.Sprintf("more-%d.", round) }},
		{"/runs/" + ref + "/talk", 3 * time.Second, func(round int) {
			if _, err := s.Direct.Send(t.Context(), ref, "verdict", admin.Message{Payload: admin.Payload(fmt.Sprintf(`"word %d."`, round))}); err != nil {
				t.Error(err)
			}
		}, func(round int) string { return fmt.Sprintf("word %d.", round) }},
	} {
		t.Run(c.page, func(t *testing.T) {
			ask := func(count int) (rounds []int64, took time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				var round atomic.Int64
				seen := make(chan int64, 10*count)
				var all sync.WaitGroup
				for range count {
					all.Go(func() {
						at := int64(-1)
						err := s.look(ctx, c.page, func(text string) bool {
							if at < 0 {
								at = 0
								seen <- 0
							}
							for at < round.Load() && strings.Contains(text, c.shows(1000*count+int(at)+1)) {
								at++
								seen <- at
							}
							return at == 3
						})
						if err != nil {
							t.Error(err)
							cancel()
						}
					})
				}
				wait := func() {
					for range count {
						select {
						case <-seen:
						case <-ctx.Done():
							t.Fatal("not all tabs show it")
						}
					}
				}
				wait()
				before, began := s.asked.questions.Load(), time.Now()
				for n := range 3 {
					round.Store(int64(n + 1))
					c.step(1000*count + n + 1)
					wait()
					rounds = append(rounds, s.asked.questions.Load()-before)
				}
				all.Wait()
				return rounds, time.Since(began)
			}
			const perDrawing = 8 // maximum number of reads for one drawing of each of these pages
			for _, count := range []int{1, most} {
				rounds, took := ask(count)
				got := rounds[len(rounds)-1]
				drawings := int64(took/c.every) + 3*3 + 2 // periodic drawings, and drawings for the events of three rounds
				t.Logf("%3d tabs: %d questions in three rounds, %v", count, got, took)
				if got == 0 || got > perDrawing*drawings {
					t.Errorf("%d tabs have asked %d questions in %v, want at most %d, as for one", count, got, took, perDrawing*drawings)
				}
			}
		})
	}
}

// TestOPS2_WhatIsCommittedIsShownAtOnce proves that a committed event is shown before the next
// periodic drawing.
func TestOPS2_WhatIsCommittedIsShownAtOnce(t *testing.T) {
	s := newTabs(t)
	ref := s.Start("talk", "order-1")
	s.Until(ref, "waiting")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const words = 40
	shown := make(chan time.Time)
	go func() {
		at := -1
		err := s.look(ctx, "/runs/"+ref+"/talk", func(text string) bool {
			if at < 0 || strings.Contains(text, fmt.Sprintf("word %d.", at)) {
				shown <- time.Now()
				at++
			}
			return at == words
		})
		if err != nil {
			t.Error(err)
			close(shown)
		}
	}()
	<-shown
	var took []time.Duration
	for n := range words {
		if _, err := s.Direct.Send(ctx, ref, "verdict", admin.Message{Payload: admin.Payload(fmt.Sprintf(`"word %d."`, n))}); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		took = append(took, (<-shown).Sub(sent))
	}
	slices.Sort(took)
	median, p95 := took[len(took)/2], took[len(took)*95/100]
	t.Logf("from the message's commit to the page with it: median %v, p95 %v", median, p95)
	if median > 1500*time.Millisecond { // the limit is high enough for a busy machine
		t.Errorf("half of what is committed is shown after %v or later, want it long before the page is drawn anyhow, every 3 s", median)
	}
}

// TestOPS2_AListAsksOnceForEachGroup proves that each failure group is read once per principal,
// however often the list is drawn.
func TestOPS2_AListAsksOnceForEachGroup(t *testing.T) {
	s := newTabs(t)
	for i := range 3 {
		s.Ended("bad", fmt.Sprint("order-", i))
	}
	draw := func(h http.Handler) string {
		r := httptest.NewRequest(http.MethodGet, "/runs", nil)
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		return answer.Body.String()
	}
	h := console.Over(s.asked.of, console.Config{})
	for range 3 {
		if got := strings.Count(draw(h), ">admintest.label: the carrier is closed</a>"); got != 3 {
			t.Errorf("%d runs say what has happened, want 3", got)
		}
	}
	if got := s.asked.groups.Load(); got != 1 {
		t.Errorf("the group was asked for %d times, want 1", got)
	}
}
