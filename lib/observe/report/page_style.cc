#include "observe/report/page_style.h"

namespace dtrain::observe {

std::string report_style() {
  return R"(:root{--paper:#fff;--text:#1c1e21;--muted:#5a5f66;--line:#dfe2e6;--band:#f5f6f8;--bad:#a3123a;--warn:#7a5200;--focus:#0072b2}
@media screen and (prefers-color-scheme:dark){:root{--paper:#1b1d20;--text:#e8e8e8;--muted:#a9afb6;--line:#3a3f45;--band:#24272b;--bad:#ff8095;--warn:#e0c04a;--focus:#56b4e9}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--text);font:16px/1.5 system-ui,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif}
main{max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.7rem;margin:.4rem 0 0}
h2{font-size:1.25rem;margin:2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem;overflow-wrap:anywhere}
.names{margin:.2rem 0;color:var(--muted);overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);font-size:.875rem;padding-bottom:.3rem}
th,td{padding:.3rem .8rem .3rem .4rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);max-width:26rem;overflow-wrap:break-word}
tbody th{font-weight:400;color:var(--muted);min-width:9rem}
thead th{font-weight:600;min-width:7rem}
tbody tr:nth-child(even){background:var(--band)}
td.text{min-width:16rem;max-width:44rem;overflow-wrap:anywhere;font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:.8125rem}
td.bad{color:var(--bad);font-weight:600}
td.warn{color:var(--warn);font-weight:600}
li{overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.2rem}
figure{margin:0;border:1px solid var(--line);border-radius:.5rem;padding:.3rem;break-inside:avoid}
figcaption{padding:.2rem .6rem .5rem;color:var(--muted);font-size:.875rem}
svg.chart{display:block;width:100%;height:auto}
.wide>figure{min-width:34rem;max-width:50rem}
table.matrix td,table.matrix th{padding:.2rem .4rem;min-width:2.2rem;max-width:7rem;text-align:right}
td.right{font-weight:600}
.worst{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.8rem}
.worst img{display:block;height:6rem;margin:.3rem;image-rendering:pixelated}
.worst .file{font-size:.75rem;overflow-wrap:anywhere}
fieldset{border:0;margin:0;padding:0;min-width:0}
legend{color:var(--muted);font-size:.875rem;padding:0}
fieldset>input{accent-color:var(--focus);width:1.1rem;height:1.1rem;margin:.5rem .3rem .9rem 0;vertical-align:middle}
fieldset>label{padding:.4rem 1.2rem .4rem 0;vertical-align:.35rem}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
.over{display:none}
#over-step:checked~.figures .step,#over-samples:checked~.figures .samples,#over-time:checked~.figures .time,#over-epoch:checked~.figures .epoch{display:block}
@media (max-width:30rem){main{padding:.7rem}table{font-size:.9375rem}thead th{min-width:5rem}tbody th{min-width:6.5rem}th,td{padding-right:.5rem}fieldset>label{padding-right:.4rem;font-size:.875rem}fieldset>input{margin-right:.2rem}}
footer{margin:2rem 0 1rem;color:var(--muted);font-size:.875rem}
@media print{main{max-width:none;padding:0}legend,fieldset>input,fieldset>label{display:none}.figures{grid-template-columns:1fr 1fr}.wide{overflow:visible}.wide>figure{min-width:0}body{font-size:10pt}}
)";
}

}  // namespace dtrain::observe
