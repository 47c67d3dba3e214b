package uitest_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// The test proves that the page of the queues shows the throughput and the latencies of steps, and
// that the figures change on the open page while workers execute runs.
func TestOPS4_RatesAreAliveInABrowser(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open(t))
			const figures = `document.querySelector(".rates")?.textContent.replace(/\s+/g, " ")`
			s.run("no worker is busy", chromedp.Navigate(s.url+"queues"), until(figures+`?.includes("Runs per second: 0 started, 0 ended. Steps per second: 0. In the last minute, on 0 busy workers.")`))
			s.Ended("good", "order-1")
			s.run("the worker has published its rates", until(`/^Runs per second: \d\.\d+ started, \d\.\d+ ended\. Steps per second: \d\.\d+\..* on 1 busy worker\.$/.test(`+figures+`)`),
				until(`[...document.querySelectorAll("table")].some(t => t.tHead?.textContent.includes("p99") && /^admintest\.label/.test(t.tBodies[0]?.rows[0]?.textContent.trim()))`))
		})
	}
}
