// Package uitest contains the tests of the web console that need a real browser, and draws the
// pictures of the README. A test fails if the browser reports an error on its console or a
// violation of the policy of a page.
package uitest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrNoBrowser is returned if no browser is installed.
var ErrNoBrowser = errors.New("no chromium on the PATH: make ui installs it, or apt-get install chromium")

// Browser is a headless browser.
type Browser struct {
	ctx  context.Context
	stop []context.CancelFunc
}

// Open starts a browser.
func Open(ctx context.Context) (*Browser, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			path = at
			break
		}
	}
	if path == "" {
		return nil, ErrNoBrowser
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute), chromedp.Flag("disable-dev-shm-usage", true))
	alloc, stopAlloc := chromedp.NewExecAllocator(ctx, opts...)
	tab, stopTab := chromedp.NewContext(alloc)
	b := &Browser{ctx: tab, stop: []context.CancelFunc{stopTab, stopAlloc}}
	if err := chromedp.Run(tab); err != nil {
		b.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return b, nil
}

// Close ends the browser process.
func (b *Browser) Close() {
	for _, stop := range b.stop {
		stop()
	}
}

// Tab is a tab of the browser. It records the errors that the browser reports.
type Tab struct {
	Ctx context.Context

	mu   sync.Mutex
	says []string
}

// Tab opens a tab. All operations in the tab share the time limit within.
func (b *Browser) Tab(within time.Duration) (t *Tab, end func(), err error) {
	ctx, stop := chromedp.NewContext(b.ctx)
	ctx, cancel := context.WithTimeout(ctx, within)
	t = &Tab{Ctx: ctx}
	chromedp.ListenTarget(ctx, t.listen)
	if err := chromedp.Run(ctx, log.Enable(), runtime.Enable()); err != nil {
		cancel()
		stop()
		return nil, nil, fmt.Errorf("open a tab: %w", err)
	}
	return t, func() { cancel(); stop() }, nil
}

func (t *Tab) listen(e any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		t.says = append(t.says, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			t.says = append(t.says, fmt.Sprintf("console: %s %v", e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			t.says = append(t.says, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// Complaints returns the errors that the browser has reported.
func (t *Tab) Complaints() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.says)
}

// Picture opens a page and returns a screenshot as PNG. If whole is true, the picture contains the
// whole page.
func (t *Tab) Picture(url string, width, height int64, theme string, whole bool) ([]byte, error) {
	var png []byte
	shoot := chromedp.CaptureScreenshot(&png)
	if whole {
		shoot = chromedp.FullScreenshot(&png, 100)
	}
	err := chromedp.Run(t.Ctx,
		chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
		chromedp.Navigate(url), chromedp.WaitVisible("#main > *", chromedp.ByQuery), shoot,
	)
	return png, err
}
