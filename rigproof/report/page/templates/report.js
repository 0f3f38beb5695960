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
      } else if (model.type === 'Text') {
        model.setv({text_color: {value: ink}});
      } else if (model.type === 'VStrip') {
        model.setv({fill_alpha: dark.matches ? 0.13 : 0.45});
      }
    });
    // Paper is always light. A chart that was drawn for the dark keeps its dark ground there.
    document.documentElement.style.setProperty('--drawn-paper', style.getPropertyValue('--paper').trim());
    document.documentElement.dataset.painted = 'yes';
  }
  dark.addEventListener('change', paint);

  // The names of the stages that fit: no name is over another one, and the stage that goes on at the left edge
  // has its own there. Of a run that goes round its stages, each lap has its name above them, and a stage only
  // if its name is not longer than the stage.
  function placeNames() {
    var axis = charts().get_model_by_name('time'), names = charts().get_model_by_name('names');
    if (!names) { return; }
    var plot = charts().roots().find(function (one) {
      return one.renderers.some(function (drawn) { return drawn.data_source === names; });
    });
    var width = plot.inner_width, scale = width / (axis.end - axis.start);
    var pen = document.createElement('canvas').getContext('2d');
    pen.font = '9pt helvetica, sans-serif';
    var laps = names.tags.some(function (one) { return one[3]; });
    var rows = [1.5, 1.1, 0.7], ends = rows.map(function () { return -Infinity; });
    var shown = {t_s: [], row: [], text: []};
    names.tags.slice().sort(function (one, other) { return one[0] - other[0]; }).forEach(function (name) {
      var left = (Math.max(name[0], axis.start) - axis.start) * scale + 4;
      var right = (Math.min(name[1], axis.end) - axis.start) * scale, long = pen.measureText(name[2]).width;
      if (right < 0 || left > width || (laps && !name[3] && left + long > right)) { return; }
      left = Math.min(left, width - long - 2);
      var row = rows.findIndex(function (_, place) {
        return laps && name[3] !== (place === 0) ? false : ends[place] < left;
      });
      if (row < 0 || left < 0) { return; }
      ends[row] = left + long + 6;
      shown.t_s.push(axis.start + left / scale);
      shown.row.push(rows[row]);
      shown.text.push(name[2]);
    });
    names.data = shown;
  }

  // Hours and minutes, and seconds only where a tick is not at a whole minute.
  function writeHours() {
    charts().all_models.forEach(function (model) {
      if (model.tags.indexOf('hours') < 0) { return; }
      model.doFormat = function (ticks) {
        var whole = ticks.every(function (tick) { return tick % 60 === 0; });
        return ticks.map(function (tick) {
          var two = function (number) { return String(Math.floor(number)).padStart(2, '0'); };
          var text = Math.floor(tick / 3600) + ':' + two(tick / 60 % 60);
          return whole ? text : text + ':' + two(tick % 60);
        });
      };
    });
  }

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
    writeHours();
    placeNames();
    var waiting;
    function soon() { clearTimeout(waiting); waiting = setTimeout(placeNames, 50); }
    axis.properties.start.change.connect(soon);
    axis.properties.end.change.connect(soon);
    charts().roots().forEach(function (plot) { plot.properties.inner_width.change.connect(soon); });
    paint();
    if (matchMedia('(pointer: coarse)').matches) { letFingersScroll(); }
  })();
})();
