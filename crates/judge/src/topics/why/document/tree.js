// The call trees of two arms as one icicle: a caller above those whom it calls. Data and words come with the page; nothing is fetched.
'use strict';
(() => {
  const ROW = 28, LEAST_PIXELS = 3, LABEL_PIXELS = 30;
  const BOTH = 0, VANISHED = 1, NEW = 2;

  // As the tables of the page write instructions.
  const thousands = value => {
    const size = Math.abs(value);
    if (size >= 999950) return (value / 1e6).toFixed(2) + ' M';
    if (size >= 999.5) return (value / 1e3).toFixed(1) + ' k';
    if (size >= 99.5) return value.toFixed(0);
    return size >= 0.95 ? String(Number(value.toPrecision(2))) : '0';
  };
  const number = value => String(Number(value.toPrecision(3)));
  const signed = (value, show) => (value > 0 && show(value) !== '0' ? '+' : '') + show(value);
  const percent = ([before, after]) => before > 0 && after > 0
    ? signed((after / before - 1) * 100, value => value.toFixed(1).replace('-0.0', '0')) + ' %' : '-';

  const element = (kind, style, text = '') => {
    const made = document.createElement(kind);
    made.className = style;
    made.textContent = text;
    return made;
  };

  // Rows of the data as nodes, each with what it comes to and the room that it takes: enough for either arm.
  const read = data => {
    const nodes = data.nodes.map(([parent, name, mechanism, mark, folded, ...rest]) => ({
      parent, mark, folded, name: data.names[name], mechanism: data.mechanisms[mechanism],
      own: [rest[0], rest[1]], calls: [rest[2], rest[3]],
      notes: rest.slice(4), total: [rest[0], rest[1]], room: Math.max(rest[0], rest[1]), children: [],
    }));
    for (const node of nodes.slice(1).reverse()) {
      const parent = nodes[node.parent];
      parent.total = parent.total.map((sum, side) => sum + node.total[side]);
      parent.room += node.room;
      parent.children.unshift(node);
    }
    nodes.forEach(node => { node.parent = nodes[node.parent]; });
    return nodes;
  };

  const show = (place, data) => {
    const { said } = data;
    const nodes = read(data);
    const whole = nodes[0];
    let zoomed = whole, told = whole, found = null;

    const view = element('div', 'view');
    const bar = element('div', 'controls');
    const search = element('input', '');
    search.type = 'search';
    search.placeholder = said.search;
    search.setAttribute('aria-label', said.search);
    const reset = element('button', 'reset', said.reset);
    reset.type = 'button';
    bar.append(search, reset);
    const matches = element('div', 'matches');
    const figures = element('div', 'figures');
    matches.setAttribute('role', 'status');
    const frames = element('div', 'frames');
    const window = element('div', 'window');
    window.append(frames);
    view.append(bar, matches, figures, window);
    place.append(view);
    place.classList.add('drawn');

    const title = node => node.folded ? said.folded.replace('{}', node.folded) : node.name || said.whole;
    const symbol = node => node.mark === VANISHED ? '\u2212 ' : node.mark === NEW ? '+ ' : '';

    const table = rows => {
      const made = element('table', '');
      const head = made.createTHead().insertRow();
      ['', ...data.arms, said.difference, said.change].forEach(text => head.append(element('th', 'n', text)));
      const body = made.createTBody();
      for (const [name, pair, format] of rows) {
        const row = body.insertRow();
        row.append(element('th', '', name));
        const cells = [...pair.map(format), signed(pair[1] - pair[0], format), percent(pair)];
        cells.forEach(text => row.append(element('td', 'n', text)));
      }
      return made;
    };

    const tell = node => {
      told = node;
      const rows = [[said.total, node.total, thousands], [said.own, node.own, thousands]];
      if (node.calls[0] + node.calls[1] > 0) rows.push([said.calls, node.calls, number]);
      const name = element('p', 'name', symbol(node) + title(node));
      if (node !== whole) name.append(element('span', 'sub', ' ' + node.mechanism));
      const notes = node.notes.map(note => element('p', 'sub', note));
      figures.replaceChildren(name, table(rows), ...notes);
    };

    const frame = (node, left, width, depth, scale, style) => {
      const made = element('button', 'frame ' + style);
      made.type = 'button';
      made.tabIndex = node === zoomed ? 0 : -1;
      made.style.left = left * 100 + '%';
      made.style.width = width * 100 + '%';
      made.style.top = depth * ROW + 'px';
      const [before, after] = node.total;
      made.setAttribute('aria-label', `${title(node)}: ${thousands(before)}, ${thousands(after)}`);
      made.classList.add(after < before ? 'less' : 'more');
      if (node.mark === VANISHED) made.classList.add('vanished');
      if (node.mark === NEW) made.classList.add('new');
      const factor = before > 0 && after > 0 ? Math.abs(Math.log2(after / before)) : 1;
      made.style.setProperty('--tint', Math.min(1, factor).toFixed(3));
      if (found) made.classList.add(found.has(node) ? 'found' : 'other');
      if (width * frames.clientWidth >= LABEL_PIXELS) {
        made.append(element('span', 'label', symbol(node) + title(node)));
      }
      node.total.forEach((total, side) => {
        const line = element('span', side ? 'bar arm' : 'bar base');
        line.style.width = Math.min(1, total / scale / width) * 100 + '%';
        made.append(line);
      });
      made.node = node;
      frames.append(made);
      node.drawn = made;
    };

    const draw = () => {
      nodes.forEach(node => { node.drawn = null; });
      frames.replaceChildren();
      const above = [];
      for (let node = zoomed.parent; node; node = node.parent) above.unshift(node);
      above.forEach((node, depth) => frame(node, 0, 1, depth, zoomed.room, 'above'));
      let deepest = above.length;
      const place = (node, left, depth) => {
        const width = node.room / zoomed.room;
        if (width * frames.clientWidth < LEAST_PIXELS) return;
        frame(node, left, width, depth, zoomed.room, '');
        deepest = Math.max(deepest, depth);
        for (const child of node.children) {
          place(child, left, depth + 1);
          left += child.room / zoomed.room;
        }
      };
      place(zoomed, 0, above.length);
      frames.style.height = (deepest + 1) * ROW + 'px';
      reset.disabled = zoomed === whole && !found;
      tell(zoomed);
    };

    const zoom = node => {
      zoomed = node;
      draw();
      node.drawn.focus({ preventScroll: true });
    };

    // What matches, each path counted once: below a frame that matches others are part of it.
    const look = () => {
      const asked = search.value.trim().toLowerCase();
      found = null;
      matches.replaceChildren();
      if (asked) {
        const names = data.functions.filter(one => data.names[one[0]].toLowerCase().includes(asked));
        const sum = names.reduce(([before, after], one) => [before + one[1], after + one[2]], [0, 0]);
        found = new Set(nodes.filter(node => !node.folded && node.name.toLowerCase().includes(asked)));
        const outer = [0, 0];
        for (const node of found) {
          let caller = node.parent;
          while (caller && !found.has(caller)) caller = caller.parent;
          if (!caller) node.total.forEach((total, side) => { outer[side] += total; });
        }
        const count = said.found.replace('{}', names.length).replace('{}', found.size);
        const rows = [[said.everywhere, sum, thousands], [said.here, outer, thousands]];
        matches.append(element('p', 'name', count), ...(names.length ? [table(rows)] : []));
      }
      draw();
    };

    const target = event => event.target.closest?.('.frame')?.node;
    frames.addEventListener('click', event => { const node = target(event); if (node) zoom(node); });
    frames.addEventListener('pointerover', event => { const node = target(event); if (node) tell(node); });
    frames.addEventListener('pointerleave', () => tell(zoomed));
    frames.addEventListener('focusin', event => { const node = target(event); if (node) tell(node); });
    frames.addEventListener('keydown', event => {
      const node = target(event);
      const siblings = node?.parent ? node.parent.children.filter(one => one.drawn) : [];
      const next = {
        ArrowUp: () => node.parent, ArrowDown: () => node.children.find(one => one.drawn),
        ArrowLeft: () => siblings[siblings.indexOf(node) - 1], ArrowRight: () => siblings[siblings.indexOf(node) + 1],
      }[event.key];
      if (node && next) { event.preventDefault(); next()?.drawn?.focus(); }
      if (event.key === 'Escape') zoom(whole);
    });
    reset.addEventListener('click', () => { search.value = ''; zoomed = whole; look(); });
    search.addEventListener('input', look);
    let width = 0;
    new ResizeObserver(() => {
      if (frames.clientWidth !== width) { width = frames.clientWidth; draw(); }
    }).observe(frames);
    draw();
  };

  for (const place of document.querySelectorAll('.tree')) {
    show(place, JSON.parse(place.querySelector('script').textContent));
  }
})();
