(() => {
  const tip = document.getElementById("tip");

  // A tooltip for the point of a panel that is nearest to the pointer.
  const NEAR = 40; // pixels
  for (const panel of document.querySelectorAll("[data-hover]")) {
    const svg = panel.querySelector("svg"), { series, spots } = JSON.parse(panel.dataset.hover);
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    dot.setAttribute("r", 4);
    dot.setAttribute("fill", "none");
    dot.setAttribute("stroke-width", 1.6);
    const hide = () => { tip.hidden = true; dot.remove(); };
    const show = (event) => {
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      const x = event.clientX - box.left, y = event.clientY - box.top;
      let best = null, least = NEAR;
      for (const spot of spots) {
        const far = Math.hypot(spot[1] * scale - x, spot[2] * scale - y);
        if (far < least) [best, least] = [spot, far];
      }
      if (!best) return hide();
      const [name, colour] = series[best[0]] || ["", "currentColor"];
      dot.setAttribute("cx", best[1]);
      dot.setAttribute("cy", best[2]);
      dot.setAttribute("stroke", colour);
      svg.append(dot);
      const head = document.createElement("b");
      head.textContent = name;
      head.style.color = colour;
      tip.replaceChildren(...(name ? [head] : []), best[3]);
      tip.hidden = false;
      const left = box.left + best[1] * scale, top = box.top + best[2] * scale;
      const right = Math.min(left + 14, innerWidth - tip.offsetWidth - 8);
      const above = top - tip.offsetHeight - 12;
      tip.style.transform = `translate(${Math.max(8, right)}px, ${above > 8 ? above : top + 16}px)`;
    };
    panel.addEventListener("pointermove", show);
    panel.addEventListener("pointerdown", show);
    panel.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Keys can scroll boxes that scroll sideways.
  const reach = () => {
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex");
    }
  };
  reach();
  addEventListener("resize", reach);

  // A button copies each command.
  for (const box of document.querySelectorAll(".command")) {
    const button = document.createElement("button"), pre = box.querySelector("pre");
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    box.append(button);
  }

  // The contents highlight the section on screen.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const link of links.values()) link.classList.remove("here");
      links.get(target.id)?.classList.add("here");
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => watch.observe(section));

  // On paper, everything is unfolded.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
})();
