package uitest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
)

// drawn contains the properties of a graph as the browser displays it.
type drawn struct {
	Wide, Tall bool     // which of the two pictures is displayed
	Nodes      []string // names and states of the nodes of that picture
	Outside    []string // texts that are wider than their nodes
	Scrolls    bool     // the picture is larger than its area
	Pale       []string // texts with a contrast below 4.5:1
}

// look is a script that returns the properties of the displayed graph.
const look = `(() => {
	const shown = (f) => f !== null && f.checkVisibility();
	const wide = document.querySelector(".drawing:not(.tall)"), tall = document.querySelector(".drawing.tall");
	const figure = shown(wide) ? wide : tall;
	const rgb = (c) => { const canvas = document.createElement("canvas").getContext("2d"); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)]; };
	const light = (c) => rgb(c).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
	const nodes = [...figure.querySelectorAll("svg > a, svg > g")], boxes = (n) => [...n.querySelectorAll("rect")].at(-1);
	return {
		Wide: shown(wide), Tall: shown(tall), Scrolls: figure.scrollWidth > figure.clientWidth,
		Nodes: nodes.map((n) => [...n.querySelectorAll("text")].map((t) => t.textContent.split(" · ")[0]).join(" ")),
		Outside: nodes.flatMap((n) => [...n.querySelectorAll("text")].filter((t) => t.getBBox().width > boxes(n).getBBox().width - 4).map((t) => t.textContent)),
		Pale: nodes.flatMap((n) => [...n.querySelectorAll("text")].filter((t) => contrast(getComputedStyle(t).fill, getComputedStyle(boxes(n)).fill) < 4.5).map((t) => n.getAttribute("class") + " " + t.textContent)),
	};
})()`

// seen returns the properties of the displayed graph.
func (s *site) seen() (d drawn) {
	s.Helper()
	s.run("the graph", chromedp.Evaluate(look, &d))
	return d
}

// The test proves that graphs are readable with each store, on phones, tablets and desktops, and in
// both themes. The texts fit into their nodes, and the graph fits into its area.
func TestOPS2_AGraphIsDrawnOnAnyScreen(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open(t))
			hanging, bad, good, built := s.Graph("hang", "order-1"), s.Graph("bad", "order-2"), s.Graph("good", "order-3"), s.Graph("9", "order-4")
			s.GraphUntil(hanging, "check", admin.NodeRunning)
			s.Until(bad, "failed")
			s.Until(good, "completed")
			s.Until(built, "completed")
			for ref, want := range map[string]string{
				hanging: "pick done, check running, gift not reached, pack not reached, stamp not reached, hand.over not reached",
				bad:     "pick done, check failed, gift not reached, pack not reached, stamp not reached, hand.over not reached",
				good:    "pick done, check done, gift skipped, pack done, stamp done ×2, hand.over done",
				built:   "",
			} {
				s.draws("runs/" + ref)
				for _, theme := range []string{"light", "dark"} {
					for _, width := range []int64{360, 768, 1440} {
						if _, err := s.Picture(s.url+"runs/"+ref, width, 800, theme, false); err != nil {
							t.Fatal(err)
						}
						d := s.seen()
						if d.Wide == d.Tall || d.Tall != (width == 360) && width != 768 || d.Scrolls || len(d.Outside)+len(d.Pale) > 0 {
							t.Errorf("%s at %d in %s: %+v", ref, width, theme, d)
						}
						if got := strings.Join(d.Nodes, ", "); got != want && want != "" || len(d.Nodes) < 6 {
							t.Errorf("%s at %d in %s shows %q, want %q", ref, width, theme, got, want)
						}
					}
				}
				s.run("back to a desk", chromedp.EmulateViewport(1280, 800), emulation.SetEmulatedMedia().WithFeatures(nil))
			}
		})
	}
}

// The test proves that a node is a link to its operations. It also proves that progress is shown
// without a reload or, without scripts, after a reload.
func TestOPS2_AGraphIsAliveInABrowser(t *testing.T) {
	s := newSite(t, memstore.New())
	ref := s.Graph("hang", "order-1")
	s.GraphUntil(ref, "check", admin.NodeRunning)
	const shows = `[...document.querySelectorAll(".graph td.said")].map((c) => c.textContent).join() === %q`
	s.run("the page", chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.url+"runs/"+ref), until(`!document.querySelector("[data-help]")?.hidden`), chromedp.Evaluate(`window.same = true`, nil),
		until(fmt.Sprintf(shows, "done,running,not reached,not reached,not reached,not reached")))
	s.run("click on a node", chromedp.Click(`.drawing a.g-done rect`, chromedp.ByQuery))
	s.run("what it has done", until(`document.querySelector("#op h2")?.textContent.includes("admintest.label") && window.same`))
	s.run("it is in sight", until(`(({ top, bottom }) => top < innerHeight && bottom > 0)(document.querySelector("#op").getBoundingClientRect())`))
	s.run("open the table", chromedp.Click(".graph summary"), until(`document.querySelector(".graph details").open`))
	s.act(ref, "terminate")
	s.run("what has changed", until(fmt.Sprintf(shows, "done,stopped,not reached,not reached,not reached,not reached")), until(`window.same && document.querySelector(".graph details").open && document.querySelector(".drawing a.g-stopped") !== null`))

	s.run("without scripts", emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(s.url+"runs/"+ref))
	if d := s.seen(); !d.Wide || strings.Join(d.Nodes, ", ") != "pick done, check stopped, gift not reached, pack not reached, stamp not reached, hand.over not reached" {
		t.Errorf("without scripts: %+v", d)
	}
	s.run("a link without scripts", chromedp.Click(`.drawing a.g-done rect`, chromedp.ByQuery), until(`document.querySelector("#op") !== null && location.search.startsWith("?op=")`), emulation.SetScriptExecutionDisabled(false))
}
