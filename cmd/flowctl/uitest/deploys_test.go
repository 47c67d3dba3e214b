package uitest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/runtime/store"
)

// The test proves that an operator can ramp and retire a build in the browser, and that a long name
// does not make the page too wide on a phone.
func TestOPS10_BuildsAreChangedInABrowser(t *testing.T) {
	s := newSite(t, stores["sqlite"](t))
	build := strings.Repeat("b", 64)
	session := store.Session{ID: "deploy", Worker: "pretended", TTL: time.Hour, Fingerprint: build + "@0", Routes: []store.Route{{Queue: "default", Workflow: "nothing"}}}
	if err := s.Client.Store().OpenSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	const button = `dialog[open] form button[type=submit], dialog[open] form button:not([type])`
	act := func(verb string) string { return `a[href$="/deploys/` + build + `/` + verb + `"]` }
	var wide int
	s.run("ramp", chromedp.Navigate(s.url+"deploys"), chromedp.Click(act("ramp")), chromedp.WaitVisible(`dialog[open] input[name=percent]`),
		chromedp.SendKeys(`dialog[open] input[name=percent]`, "5"), chromedp.Click(button), until(`document.body.textContent.includes("distributed as set") && document.querySelector("tbody").textContent.includes("95")`))
	s.run("retire", chromedp.Navigate(s.url+"deploys"), chromedp.Click(act("retire")), chromedp.WaitVisible(`dialog[open] input[name=to]`), chromedp.Click(button), until(`document.body.textContent.includes("The build is retired")`))
	s.run("drained", chromedp.Navigate(s.url+"deploys?drained="+build), until(`document.querySelector("section.box h2")?.textContent.includes("needed")`))
	s.draws("deploys")
	s.run("on a phone", chromedp.EmulateViewport(360, 800), chromedp.Navigate(s.url+"deploys"), until(`!!document.querySelector("tbody")`),
		chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide))
	if wide > 0 {
		t.Errorf("on a phone, the page is %d pixels too wide", wide)
	}
}
