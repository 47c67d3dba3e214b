package uitest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
)

// fetched requests a page. It returns the response time and the size in bytes.
func (s *site) fetched(page string) (time.Duration, int) {
	s.Helper()
	began := time.Now()
	answer, err := http.Get(s.url + page)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.Fatalf("%s: status %d, %v", page, answer.StatusCode, err)
	}
	return time.Since(began), len(text)
}

// heap returns the number of bytes that the scripts of the page use.
func (s *site) heap() float64 {
	s.Helper()
	var used float64
	s.run("the heap", chromedp.ActionFunc(func(ctx context.Context) error {
		if err := heapprofiler.CollectGarbage().Do(ctx); err != nil {
			return err
		}
		var err error
		used, _, _, _, err = runtime.GetHeapUsage().Do(ctx)
		return err
	}))
	return used
}

// The test proves that, with each store, a run of 20,000 events is displayed as efficiently as a
// small one. It measures the number of nodes, the memory of scripts, and the response time of
// clicks.
func TestOPS2_ARunOfTwentyThousandEventsDraws(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open(t))
			run := "runs/" + s.Long(6_700, "order-1")
			cold, _ := s.fetched(run)
			warm, bytes := s.fetched(run)
			t.Logf("cold %v, warm %v, %d bytes", cold, warm, bytes)
			for _, tab := range append(tabs, "/events?from=20001") {
				s.draws(run + tab)
			}
			s.run("expand", chromedp.Navigate(s.url+run), until(`!document.querySelector("[data-help]")?.hidden`), chromedp.Click("a.fold"), until(`document.querySelectorAll("tr.k-step").length === 78`))
			var nodes int
			s.run("page by page", chromedp.Click("a[rel=next]"), until(`document.querySelector("a[rel=prev]") !== null`), chromedp.KeyEvent("+"), until(`location.search.includes("from=")`), chromedp.KeyEvent("0"), until(`!location.search.includes("from=")`),
				chromedp.Evaluate(`document.querySelectorAll("*").length`, &nodes))
			if used := s.heap(); nodes > 1500 || used > 30<<20 {
				t.Errorf("after some clicks there are %d nodes, and %.0f bytes of scripts, want at most 1,500 and 30 MB", nodes, used)
			} else {
				t.Logf("%d nodes, %.1f MB of scripts", nodes, used/(1<<20))
			}
		})
	}
}

// The test proves that a committed event is displayed before the next periodic update, which
// happens after 3 seconds.
func TestOPS2_WhatIsCommittedIsOnTheScreenAtOnce(t *testing.T) {
	s := newSite(t, memstore.New())
	ref := s.Start("talk", "order-1")
	s.Until(ref, "waiting")
	// when contains the time at which each word was first displayed. Its clock is synchronized with
	// the clock of the test.
	s.run("watch", chromedp.Navigate(s.url+"runs/"+ref+"/talk"), until(`!document.querySelector("[data-help]")?.hidden`), chromedp.Evaluate(`
		window.when = {};
		new MutationObserver(() => { for (const [w] of document.querySelector("#main").textContent.matchAll(/word-\d+\./g)) window.when[w] ??= Date.now(); }).observe(document.querySelector("#main"), { subtree: true, childList: true, characterData: true });
		true`, nil))
	var took []time.Duration
	for n := range 20 {
		word := fmt.Sprintf("word-%d.", n)
		if _, err := s.Direct.Send(t.Context(), ref, "verdict", admin.Message{Payload: admin.Payload(`"` + word + `"`)}); err != nil {
			t.Fatal(err)
		}
		sent := time.Now().UnixMilli()
		var seen float64
		s.run(word, until(fmt.Sprintf(`%q in window.when`, word)), chromedp.Evaluate(fmt.Sprintf(`window.when[%q]`, word), &seen))
		took = append(took, time.Duration(int64(seen)-sent)*time.Millisecond)
	}
	slices.Sort(took)
	median, p95 := took[len(took)/2], took[len(took)*95/100]
	t.Logf("from the message's commit to the screen: median %v, p95 %v", median, p95)
	if median > 1500*time.Millisecond { // The limit allows for a busy machine.
		t.Errorf("half of what is committed is on the screen after %v or later", median)
	}
	var text string
	if s.run("the page", chromedp.Text("#main", &text)); !strings.Contains(text, "word-19.") {
		t.Errorf("the page has not the last word\n%s", text)
	}
}
