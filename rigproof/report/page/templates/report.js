'use strict';
(function () {
  var all = function (selector) { return Array.from(document.querySelectorAll(selector)); };

  // A link into folded content unfolds it.
  function unfold() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) { return; }
    for (var part = target; part; part = part.parentElement) {
      if (part.tagName === 'DETAILS') { part.open = true; }
    }
    if (target.hidden) { all('.filter button')[0].click(); }
    target.scrollIntoView();
  }
  addEventListener('hashchange', unfold);
  addEventListener('click', function (event) {  // also to where the address points already
    var link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) { unfold(); }
  });
  unfold();

  all('.filter button').forEach(function (button) {
    button.addEventListener('click', function () {
      var wanted = button.dataset.outcome;
      all('.filter button').forEach(function (other) {
        other.setAttribute('aria-pressed', String(other === button));
      });
      all('#criteria tbody tr').forEach(function (row) {
        row.hidden = Boolean(wanted) && row.dataset.outcome !== wanted;
      });
    });
  });

  (function draw() {
    var plots = document.getElementById('plots');
    if (!plots || typeof Bokeh === 'undefined') { return; }
    plots = JSON.parse(plots.textContent);
    var places = all('.plot > div'), roots = {};
    plots.roots.forEach(function (root, number) { roots[root.id] = places[number].id; });
    Bokeh.embed.embed_items({plots: plots}, [{docid: 'plots', roots: roots, root_ids: Object.keys(roots)}]);
  })();

  function charts() { return typeof Bokeh === 'undefined' ? undefined : Bokeh.documents[0]; }

  all('.legend button').forEach(function (button) {
    button.addEventListener('click', function () {
      var line = charts() && charts().get_model_by_name(button.dataset.line);
      if (!line) { return; }
      line.visible = !line.visible;
      button.setAttribute('aria-pressed', String(line.visible));
    });
  });

  var whole;  // of the run: where the time axis begins and ends
  all('.zoom button').forEach(function (button) {
    button.addEventListener('click', function () {
      var axis = charts() && charts().get_model_by_name('time');
      if (!axis || !whole) { return; }
      var first = whole[0], last = whole[1], length = axis.end - axis.start;
      var start = axis.start, end = axis.end;
      switch (button.dataset.zoom) {
        case 'in': start += length / 4; end -= length / 4; break;
        case 'out': start -= length / 2; end += length / 2; break;
        case 'earlier': start -= length / 2; end -= length / 2; break;
        case 'later': start += length / 2; end += length / 2; break;
        default: start = first; end = last;
      }
      if (start < first) { end += first - start; start = first; }
      if (end > last) { start -= end - last; end = last; }
      axis.setv({start: Math.max(start, first), end: Math.min(end, last)});
    });
  });

  // The charts' canvases follow the page's colours, which no style sheet can tell them.
  var dark = matchMedia('(prefers-color-scheme: dark)');
  function paint() {
    var doc = charts();
    if (!doc) { return; }
    var style = getComputedStyle(document.documentElement);
    var ink = style.getPropertyValue('--ink').trim(), quiet = style.getPropertyValue('--quiet').trim();
    var line = style.getPropertyValue('--line').trim();
    doc.all_models.forEach(function (model) {
      if (model.type === 'LinearAxis') {
        model.setv({axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: quiet,
          major_tick_line_color: quiet, minor_tick_line_color: quiet});
      } else if (model.type === 'Grid') {
        model.setv({grid_line_color: line});
      } else if (model.type === 'Label') {
        model.setv({text_color: ink});
      } else if (model.type === 'VStrip') {
        model.setv({fill_alpha: dark.matches ? 0.13 : 0.45});
      }
    });
    // Paper is always light. A chart that was drawn for the dark keeps its dark ground there.
    document.documentElement.style.setProperty('--drawn-paper', style.getPropertyValue('--paper').trim());
    document.documentElement.dataset.painted = 'yes';
  }
  dark.addEventListener('change', paint);

  // A finger scrolls the page, which is many charts long; only a mouse draws a zoom.
  function letFingersScroll() {
    charts().all_models.forEach(function (model) {
      if (model.type === 'BoxZoomTool') { model.active = false; }
    });
  }

  // On paper a chart is as wide as the paper: it is drawn as on the screen, then made smaller.
  addEventListener('beforeprint', function () {
    var paper = 680;
    all('.plot').forEach(function (plot) {
      var width = plot.getBoundingClientRect().width;
      plot.style.setProperty('--drawn-width', width + 'px');
      plot.style.setProperty('--print-zoom', String(Math.min(1, paper / width)));
    });
  });

  (function whenDrawn() {
    if (all('.plot').length === 0) { return; }
    if (!charts() || !charts().is_idle) { setTimeout(whenDrawn, 50); return; }
    var axis = charts().get_model_by_name('time');
    whole = [axis.start, axis.end];
    paint();
    if (matchMedia('(pointer: coarse)').matches) { letFingersScroll(); }
  })();
})();
